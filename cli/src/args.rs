//! The command line. Settings come from flags, then from the environment (`FLEETCAL_*`), then from defaults.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use fleetcal_agent::device::sim::SimSpec;
use fleetcal_core::plan::{Selector, nearest};
use fleetcal_model::device::Backend;
use tonic::transport::Endpoint;

mod fit;

pub(crate) use fit::FitArguments;

/// Address that coordinators listen on and that everybody else calls, unless told otherwise.
pub(crate) const DEFAULT_PORT: &str = "127.0.0.1:7600";

/// The same, as a URL.
const DEFAULT_URL: &str = "http://127.0.0.1:7600";

/// Longest label of a node or rack, characters: it stands in every row.
const LABEL_MAX: usize = 200;

/// What stands below the help.
const HELP: &str = "Example:\n  fleetcal calibrate --plan quick\n\nExit codes:\n  \
    0    done\n  \
    1    internal fault\n  \
    2    usage\n  \
    3    the plan is wrong, or asks for more than its limits or the devices' memory allow\n  \
    4    no such device or run, or it cannot be done now\n  \
    5    data folder\n  \
    6    network\n  \
    7    protocol version\n  \
    8    not everything was measured or could be read, or a result was wrong\n  \
    9    standard output\n  \
    130  interrupted";

/// Calibrates heterogeneous GPU fleets: measured constants of a performance model, per device class.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, propagate_version = true)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure this machine: the whole job, from finding devices to constants.
    #[command(after_help = "Examples:\n  fleetcal calibrate\n  fleetcal calibrate --plan standard --device \
                            backend=cuda\n  fleetcal calibrate --resume RUN")]
    Calibrate(CalibrateArguments),
    /// Run the coordinator of a fleet.
    #[command(after_help = "Example:\n  fleetcal coordinator --data /var/lib/fleetcal")]
    Coordinator(CoordinatorArguments),
    /// Run the agent of this node. It may start before the coordinator, and outlives its restarts.
    #[command(after_help = "Example:\n  fleetcal agent --coordinator http://127.0.0.1:7600 --data \
                            /var/lib/fleetcal-agent")]
    Agent(AgentArguments),
    /// Submit a plan to a coordinator, and watch it to its end.
    #[command(after_help = "Example:\n  fleetcal run standard")]
    Run(RunArguments),
    /// Cancel a run: its devices are free within seconds, what was measured stays.
    Cancel(CancelArguments),
    /// Show runs, agents and tasks.
    #[command(after_help = "Example:\n  fleetcal status --watch")]
    Status(StatusArguments),
    /// Show devices: those of a fleet, or with `--local` those of this machine.
    #[command(after_help = "Example:\n  fleetcal devices --local")]
    Devices(DevicesArguments),
    /// Show rows: what was measured of every point and solution, from a data folder. Needs no coordinator.
    #[command(after_help = "Examples:\n  fleetcal rows\n  fleetcal rows --run RUN --output csv --columns \
                            point,solution,status,estimate_ns\n  fleetcal rows --list-columns")]
    Rows(RowsArguments),
    /// Fit constants from rows: Parquet files of ours, or what other programs measured. Needs no coordinator.
    #[command(after_help = fit::HELP)]
    Fit(FitArguments),
    /// Look at plans. Touches no device and no coordinator.
    #[command(subcommand)]
    Plan(PlanCommand),
    /// Drive devices for the agent, over pipes.
    #[command(hide = true)]
    Worker,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// The format of what is printed.
#[derive(Debug, Args)]
pub(crate) struct OutputArguments {
    /// Format of what is printed on standard output.
    #[arg(long, value_enum, default_value = "table", env = "FLEETCAL_OUTPUT")]
    pub(crate) output: Output,
}

/// Which devices a node offers.
#[derive(Debug, Args)]
pub(crate) struct NodeArguments {
    /// Make simulated devices: `2`, or `2,seed=7,pace=0.1`. Their rows say `simulated`. Faults may be planted, each as
    /// `fault=KIND`: `wrong_result:KERNEL, off_by_one:KERNEL[:ACCESS], compile:SOLUTION, unloadable:SOLUTION, oom,
    /// lost[:VISITS], hang[:VISITS], spin:SOLUTION, exit:SOLUTION, throttled:REASON[:VISITS], sensor_lost[:READINGS],
    /// foreign[:VISITS]`.
    #[arg(long, value_name = "SPEC", default_value_t, env = "FLEETCAL_SIM")]
    pub(crate) sim: SimSpec,
    /// Offer only devices of this backend; may be given several times.
    #[arg(long = "backend", value_name = "BACKEND", value_parser = parse_backend)]
    pub(crate) backends: Vec<Backend>,
    /// Label of this node; its host name where not given.
    #[arg(long, env = "FLEETCAL_NODE", value_parser = parse_label)]
    pub(crate) node: Option<String>,
    /// Label of this node's rack.
    #[arg(long, env = "FLEETCAL_RACK", value_parser = parse_label)]
    pub(crate) rack: Option<String>,
    /// Kill a worker whose launch, or batch of timed launches, takes this long beyond what is expected of it, seconds.
    #[arg(long, value_name = "SECONDS", hide = true)]
    pub(crate) launch_deadline: Option<u64>,
}

/// What an agent may do on its node.
#[derive(Debug, Args)]
pub(crate) struct AgentLimits {
    /// Read no sensors of devices, whatever the plan says: rows then hold no clocks, power, temperatures or throttle
    /// reasons. The plan and its digest stay as they are.
    #[arg(long, env = "FLEETCAL_NO_MONITOR", value_parser = FalseyValueParser::new())]
    pub(crate) no_monitor: bool,
}

/// How to reach a coordinator.
#[derive(Debug, Args)]
pub(crate) struct ClientArguments {
    /// The coordinator.
    #[arg(long, value_name = "URL", default_value = DEFAULT_URL, env = "FLEETCAL_COORDINATOR", value_parser = parse_url)]
    pub(crate) coordinator: String,
    /// How long to wait for a coordinator that is not there, seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) wait: u64,
}

impl ClientArguments {
    /// How long to wait for the coordinator.
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs(self.wait)
    }
}

/// `fleetcal calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// A built-in plan (`quick`, `standard`) or a plan file.
    #[arg(long, default_value = "quick", value_name = "PLAN")]
    pub(crate) plan: String,
    /// Measure only devices that match: a class, vendor, backend or UUID, or `key=value`; may be given several times.
    #[arg(long = "device", value_name = "SELECTOR", value_parser = parse_selector)]
    pub(crate) devices: Vec<String>,
    /// Go on with a run that was cut short.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["plan", "devices"])]
    pub(crate) resume: Option<String>,
    /// Folder for rows, journal and constants.
    #[arg(long, default_value = "./fleetcal-data", value_name = "FOLDER", env = "FLEETCAL_DATA")]
    pub(crate) data: PathBuf,
    /// End a task at the first solution that fails. Sets the plan's `exit_on_error`: what runs is the changed plan, with a
    /// digest of its own.
    #[arg(long, conflicts_with = "resume")]
    pub(crate) exit_on_error: bool,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
    #[command(flatten)]
    pub(crate) limits: AgentLimits,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// `fleetcal coordinator`.
#[derive(Debug, Args)]
pub(crate) struct CoordinatorArguments {
    /// Address to listen on. Only loopback addresses, until transport security is there.
    #[arg(long, default_value = DEFAULT_PORT, value_name = "ADDRESS", env = "FLEETCAL_LISTEN")]
    pub(crate) listen: SocketAddr,
    /// Folder for rows, journal and constants.
    #[arg(long, default_value = "./fleetcal-data", value_name = "FOLDER", env = "FLEETCAL_DATA")]
    pub(crate) data: PathBuf,
    /// How long a lease lasts without a heartbeat, seconds.
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) lease: u64,
    /// How long the tasks of a lost agent wait for it before devices of the same class take them, seconds.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub(crate) grace: u64,
}

/// `fleetcal agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// The coordinator.
    #[arg(long, value_name = "URL", default_value = DEFAULT_URL, env = "FLEETCAL_COORDINATOR", value_parser = parse_url)]
    pub(crate) coordinator: String,
    /// Folder for the agent's identity and for rows on their way.
    #[arg(long, default_value = "./fleetcal-agent", value_name = "FOLDER", env = "FLEETCAL_AGENT_DATA")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
    #[command(flatten)]
    pub(crate) limits: AgentLimits,
}

/// `fleetcal run`.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// A built-in plan (`quick`, `standard`) or a plan file.
    #[arg(value_name = "PLAN", required_unless_present = "resume")]
    pub(crate) plan: Option<String>,
    /// Go on with a run that was cut short.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["plan", "devices"])]
    pub(crate) resume: Option<String>,
    /// Measure only devices that match; may be given several times.
    #[arg(long = "device", value_name = "SELECTOR", value_parser = parse_selector)]
    pub(crate) devices: Vec<String>,
    /// End a task at the first solution that fails. Sets the plan's `exit_on_error`: what runs is the changed plan, with a
    /// digest of its own.
    #[arg(long, conflicts_with = "resume")]
    pub(crate) exit_on_error: bool,
    /// Print the run and return, without watching it.
    #[arg(long)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) client: ClientArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// `fleetcal cancel`.
#[derive(Debug, Args)]
pub(crate) struct CancelArguments {
    /// The run.
    pub(crate) run: String,
    /// Why; kept with the run.
    #[arg(long, default_value = "cancelled by a user")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) client: ClientArguments,
}

/// `fleetcal status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// Show it anew every second, until interrupted.
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) client: ClientArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// `fleetcal devices`.
#[derive(Debug, Args)]
pub(crate) struct DevicesArguments {
    /// Look at this machine, without a coordinator.
    #[arg(long)]
    pub(crate) local: bool,
    /// Folder whose identity names `cpu` and `sim` devices, with `--local`.
    #[arg(long, default_value = "./fleetcal-data", value_name = "FOLDER", env = "FLEETCAL_DATA")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
    #[command(flatten)]
    pub(crate) client: ClientArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowsOutput {
    /// For people.
    Table,
    /// For spreadsheets: one line of names, one line a row, every digit of every number.
    Csv,
    /// For programs: one object a line.
    Json,
}

/// `fleetcal rows`.
#[derive(Debug, Args)]
pub(crate) struct RowsArguments {
    /// Folder that holds `rows/`.
    #[arg(long, default_value = "./fleetcal-data", value_name = "FOLDER", env = "FLEETCAL_DATA")]
    pub(crate) data: PathBuf,
    /// Show only this run.
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Format of what is printed on standard output.
    #[arg(long, value_enum, default_value = "table", env = "FLEETCAL_OUTPUT")]
    pub(crate) output: RowsOutput,
    /// Columns to print, separated by commas; `--list-columns` names them.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', value_parser = parse_column)]
    pub(crate) columns: Vec<String>,
    /// Print everything: in CSV and JSON also lists and maps (samples, rounds, parameters), in the table also rows of
    /// solutions that screening left behind.
    #[arg(long, conflicts_with = "columns")]
    pub(crate) all_columns: bool,
    /// Print rows of every attempt. Else, of a task that was interrupted and went on, only the later ones are: they have the
    /// visits of the earlier ones in them.
    #[arg(long)]
    pub(crate) all_attempts: bool,
    /// Print the columns that there are, with their types, and no rows.
    #[arg(long)]
    pub(crate) list_columns: bool,
}

/// `fleetcal plan`.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Say whether a plan is right, and if not, where it is wrong.
    Check(PlanArguments),
    /// Show every task of a plan.
    Show(PlanArguments),
    /// Show what a plan costs, in device-minutes per class.
    Estimate(PlanArguments),
}

/// A plan, and the devices to plan for.
#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    /// A built-in plan (`quick`, `standard`) or a plan file.
    #[arg(value_name = "PLAN")]
    pub(crate) plan: String,
    /// Plan for these devices instead of this processor: a JSON file as `fleetcal devices --output json` writes it.
    #[arg(long, value_name = "FILE")]
    pub(crate) devices: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// A selector as it was written, if it is one.
fn parse_selector(text: &str) -> Result<String, String> {
    text.parse::<Selector>().map(|_| text.to_owned()).map_err(|problem| problem.to_string())
}

/// A coordinator's address.
fn parse_url(text: &str) -> Result<String, String> {
    if !text.starts_with("http://") {
        return Err("a coordinator's address begins with http://, as in http://127.0.0.1:7600".to_owned());
    }
    Endpoint::from_shared(text.to_owned()).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// A label that stands in rows and tables: one line of some length.
fn parse_label(text: &str) -> Result<String, String> {
    match text.chars().count() {
        0 => Err("a label has at least one character".to_owned()),
        length if length > LABEL_MAX => Err(format!("a label has at most {LABEL_MAX} characters")),
        _ if text.chars().any(char::is_control) => Err("a label is one line without control characters".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

fn parse_backend(text: &str) -> Result<Backend, String> {
    text.parse::<Backend>().map_err(|error| error.to_string())
}

/// The name of a column, as the row schema has it. There are over a hundred: an error lists none but the nearest.
fn parse_column(text: &str) -> Result<String, String> {
    let keys = fleetcal_proto::rows::keys();
    let mut names = keys.iter().map(|key| key.name.as_str());
    if names.clone().any(|name| name == text) {
        return Ok(text.to_owned());
    }
    let meant = nearest(text, &mut names).map(|name| format!(", did you mean `{name}`?")).unwrap_or_default();
    Err(format!("there is no such column{meant} (`fleetcal rows --list-columns` lists them all)"))
}
