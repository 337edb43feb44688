use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::id::RunId;
use fleetcal_model::policy::{Batching, BoundsCheck, Caches, DataPattern, Load, SolutionChoice, StopCriterion};

use super::*;

/// An H200 for tests of this crate.
pub(crate) fn sample_device(uuid: &str, node: &str) -> FleetDevice {
    let facts = DeviceFacts {
        uuid: uuid.into(),
        backend: Backend::Cuda,
        vendor: "nvidia".to_owned(),
        name: "NVIDIA H200".to_owned(),
        architecture: "sm_90".to_owned(),
        compute_units: 132,
        memory_bytes: 150_754_820_096,
        memory_clock_khz: Some(3_201_000),
        core_clock_khz: Some(1_980_000),
        power_limit_mw: Some(700_000),
        partition_mode: Some("none".to_owned()),
        ecc: Some(true),
        sockets: None,
        pci_bdf: None,
        vbios: None,
        driver: None,
        runtime: None,
        l2_cache_bytes: Some(60 << 20),
        last_level_cache_bytes: Some(60 << 20),
        warp_size: 32,
    };
    FleetDevice { facts, node: node.to_owned(), host: format!("{node}.example"), rack: None }
}

/// A two-core virtual machine that reports the last-level cache of its host.
fn virtual_machine() -> FleetDevice {
    let mut device = sample_device("cpu-1", "laptop");
    device.facts = DeviceFacts {
        backend: Backend::Cpu,
        vendor: "intel".to_owned(),
        name: "Xeon".to_owned(),
        compute_units: 2,
        memory_bytes: 8 << 30,
        memory_clock_khz: None,
        sockets: Some(1),
        last_level_cache_bytes: Some(300 << 20),
        warp_size: 1,
        ..device.facts
    };
    device
}

const SWEEP: &str = "[[sweep]]\nfamily = \"stream\"\nelements = \"2^20\"\n";

fn errors_of(text: &str) -> Vec<String> {
    match Plan::parse(text) {
        Ok(plan) => panic!("this was taken for a plan: {plan:?}"),
        Err(errors) => errors.to_string().lines().map(str::to_owned).collect(),
    }
}

/// Text of a plan, and what is said of it. Each expectation is the beginning of one line.
const CASES: &[(&str, &[&str])] = &[
    ("", &["1:1: `name` is missing", "1:1: `sweep` is missing: at least one [[sweep]]"]),
    ("name = \"a\"\nsweep = []\n", &["2:9: sweep: `[]` cannot be used: at least one [[sweep]]"]),
    ("name = 3\n$SWEEP", &["1:8: name: expected a string, found a whole number"]),
    ("name = \"\"\n$SWEEP", &["1:8: name: `` cannot be used"]),
    ("name = \n", &["1:8: not valid TOML"]),
    (
        "name = \"a\"\n[measure]\nroundz = 3\n$SWEEP",
        &["3:1: measure: unknown key `roundz`, did you mean `rounds`?, known here: rounds, rounds_max"],
    ),
    (
        "name = \"a\"\n[measure]\nrounds = \"many\"\n$SWEEP",
        &["3:10: measure.rounds: expected a whole number, found a string"],
    ),
    ("name = \"a\"\n[measure]\nrounds = 0\n$SWEEP", &["3:10: measure.rounds: `0` cannot be used: it must be from 1"]),
    ("name = \"a\"\n[measure]\nrounds = -1\n$SWEEP", &["3:10: measure.rounds: `-1` cannot be used"]),
    (
        "name = \"a\"\n[measure]\nvisit_limit = 1\nnoise_target = \"1\"\n$SWEEP",
        &["3:15: measure.visit_limit: expected a duration such as", "4:16: measure.noise_target: `1` cannot be used"],
    ),
    (
        "name = \"a\"\n[measure]\nsamples_min = 9\nsamples_max = 3\n$SWEEP",
        &["4:15: measure.samples_max: `3` cannot be used: samples_max must be at least samples_min, which is 9"],
    ),
    (
        "name = \"a\"\n[measure]\nsamples_min = 200000\nsamples_max = 100001\nscreening_samples = 100001\n$SWEEP",
        &[
            "3:15: measure.samples_min: `200000` cannot be used: it must be from 1 to 100000",
            "4:15: measure.samples_max: `100001` cannot be used: it must be from 1 to 100000",
            "5:21: measure.screening_samples: `100001` cannot be used: it must be from 1 to 100000",
        ],
    ),
    (
        "name = \"a\"\n[measure]\nrounds = 5\nrounds_max = 4\ninterval_target = \"100%\"\nstop = \"intervall\"\n$SWEEP",
        &[
            "4:14: measure.rounds_max: `4` cannot be used: rounds_max must be at least rounds, which is 5",
            "5:19: measure.interval_target: `100%` cannot be used: it must be more than 0% and less than 100%",
            "6:8: measure.stop: unknown stop criterion `intervall`, did you mean `interval`?, known: interval, stable_noise",
        ],
    ),
    (
        "name = \"a\"\n[measure]\nbatching = true\nsolutions = \"bets\"\ndata = \"randm\"\nbounds = \"page\"\ncaches = \"hot\"\n$SWEEP",
        &[
            "3:12: measure.batching: expected a string, found true or false",
            "4:13: measure.solutions: unknown solution choice `bets`, did you mean `best`?",
            "5:8: measure.data: unknown data pattern `randm`, did you mean `random`?",
            "6:10: measure.bounds: unknown bounds check `page`, did you mean `pages`?, known: none, values, pages",
            "7:10: measure.caches: unknown cache state `hot`, known: auto, cold, warm",
        ],
    ),
    (
        "name = \"a\"\n[measure]\nload_time = \"1s\"\nmonitor = \"off\"\nsettle_limit = \"0s\"\n$SWEEP",
        &[
            "3:13: measure.load_time: `1s` cannot be used: it belongs to a load",
            "4:11: measure.monitor: expected true or false, found a string",
            "5:16: measure.settle_limit: `0s` cannot be used",
        ],
    ),
    ("name = \"a\"\n[measure]\nload = \"idle\"\n$SWEEP", &["3:8: measure.load: unknown load `idle`"]),
    (
        "name = \"a\\u001b[2J\"\ndescription = \"\"\"two\nlines\"\"\"\nlabel = \"$LONG\"\n$SWEEP",
        &[
            "1:8: name: `a\\u{1b}[2J` cannot be used: it must be one line without control characters",
            "2:15: description: `two\\nlines` cannot be used",
            "4:9: label: `xxxxxxxxxxxxxxxxxxxx…` cannot be used: it has 201 characters, and at most 200 are kept",
        ],
    ),
    ("name = \"a\"\nmeasure = 3\n$SWEEP", &["2:11: measure: expected a table, found a whole number"]),
    ("name = \"a\"\nsweep = 3\n", &["2:9: sweep: expected [[sweep]] sections, in double brackets"]),
    (
        "name = \"a\"\n[devices]\nselect = [\"vendr=amd\", 3]\n$SWEEP",
        &[
            "3:11: devices.select: unknown selector `vendr`, did you mean `vendor`?",
            "3:24: devices.select: expected a string, found a whole number",
        ],
    ),
    (
        "name = \"a\"\n[[sweep]]\nfamily = \"steam\"\nelements = 1\n",
        &["3:10: sweep[0].family: unknown family `steam`, did you mean `stream`?, known: stream"],
    ),
    ("name = \"a\"\n[[sweep]]\nelements = 1\n", &["2:1: `family` is missing"]),
    ("name = \"a\"\n[[sweep]]\nfamily = \"stream\"\n", &["2:1: sweep[0].elements: `elements` is missing"]),
    (
        "name = \"a\"\n[[sweep]]\nfamily = \"stream\"\nkernels = [\"triade\"]\ndtypes = \"f23\"\nelements = []\n",
        &[
            "4:12: sweep[0].kernels: unknown kernel `triade`, did you mean `triad`?",
            "5:10: sweep[0].dtypes: unknown dtype `f23`, did you mean `f32`?",
            "6:12: sweep[0].elements: `[]` cannot be used",
        ],
    ),
    (
        "name = \"\u{fc}\" # \u{fc}\n[[sweep]]\nfamily = \"stream\"\nelements = [\"2^20\", 0, 1000, \"2^x\"]\n",
        &[
            "4:21: sweep[0].elements: elements = 0 cannot be used",
            "4:24: sweep[0].elements: elements = 1000 cannot be used",
            "4:30: sweep[0].elements: `2^x` cannot be used: it must be a size such as",
        ],
    ),
    (
        "name = \"a\"\n[[sweep]]\nfamily = \"stream\"\nelements = { from = 0, to = \"2^20\" }\n",
        &["4:21: sweep[0].elements: elements = 0 cannot be used"],
    ),
    (
        "name = \"a\"\n[[sweep]]\nfamily = \"stream\"\nelements = { from = \"2^20\", to = \"2^18\", step = 1 }\n",
        &["4:49: sweep[0].elements.step: `1` cannot be used"],
    ),
    (
        "name = \"a\"\n[[sweep]]\nfamily = \"stream\"\nelements = { form = \"2^20\", to = \"2^18\" }\n",
        &[
            "4:12: sweep[0].elements: `from` is missing",
            "4:14: sweep[0].elements: unknown key `form`, did you mean `from`?",
        ],
    ),
    (
        "name = \"a\"\n[fit]\nfootprint_factor = 3\nsizes_min = 2\n$SWEEP",
        &[
            "3:20: fit.footprint_factor: `3` cannot be used: it must be from 4",
            "4:13: fit.sizes_min: `2` cannot be used: it must be from 3",
        ],
    ),
    ("name = \"a\"\n[fit]\nmode = \"seeds\"\n$SWEEP", &["3:8: fit.mode: unknown mode `seeds`, did you mean `seed`?"]),
    (
        "name = \"a\"\n[limits]\ndevices_per_node = 0\n$SWEEP",
        &["3:20: limits.devices_per_node: `0` cannot be used: it must be from 1"],
    ),
    (
        "name = \"a\"\n[limits]\ndevices_per_node = \"every\"\n$SWEEP",
        &["3:20: limits.devices_per_node: `every` cannot be used: it must be a number of devices, or \"all\""],
    ),
    ("name = \"a\"\n[limits]\ntask_time = \"9 weeks\"\n$SWEEP", &["3:13: limits.task_time: `9 weeks` cannot be used"]),
];

#[test]
fn errors_point_at_line_and_column_and_say_what_is_right() {
    for (text, expected) in CASES {
        let text = text.replace("$SWEEP", SWEEP).replace("$LONG", &"x".repeat(201));
        let found = errors_of(&text);
        assert_eq!(found.len(), expected.len(), "of\n{text}\nwas said {found:#?}");
        for (found, expected) in found.iter().zip(*expected) {
            assert!(found.starts_with(expected), "of\n{text}\nexpected {expected}\nfound    {found}");
        }
    }
}

/// The documentation shows every key of `[measure]` with its default.
#[test]
fn the_documented_plan_is_one_and_its_measuring_is_the_default() {
    let text = include_str!("../plan.rs");
    let (_, behind) = text.split_once("```toml\n").expect("there is an example");
    let (example, _) = behind.split_once("//! ```").expect("it ends");
    let lines: Vec<&str> = example.lines().map(|line| line.strip_prefix("//!").unwrap_or(line)).collect();
    let plan = Plan::parse(&lines.join("\n")).expect("the documented plan is one");
    assert_eq!(plan.measure, MeasuringPolicy::default());
    for (key, value) in measure_keys(&plan.measure) {
        let line = format!(" {key} = {value}");
        assert!(lines.iter().any(|text| text.starts_with(&line)), "the documentation does not say `{line}`");
    }
}

/// The README shows a plan that is one, and names every key of `[measure]`.
#[test]
fn the_readme_shows_a_plan_and_names_every_key() {
    let text = include_str!("../../../../README.md");
    let (_, behind) = text.split_once("```toml\n").expect("there is an example");
    let (example, rest) = behind.split_once("```").expect("it ends");
    Plan::parse(example).expect("the README's plan is one");
    let load = Some(Load::Burst);
    for (key, _) in measure_keys(&MeasuringPolicy { load, ..MeasuringPolicy::default() }) {
        assert!(
            example.contains(&format!("{key} = ")) || rest.contains(&format!("`{key}`")),
            "the README lacks `{key}`"
        );
    }
}

#[test]
fn more_rounds_than_the_defaults_most_are_their_own_most() {
    let rounds = |lines: &str| {
        let measure = Plan::parse(&format!("name = \"a\"\n[measure]\n{lines}\n{SWEEP}")).expect("a plan").measure;
        (measure.rounds, measure.rounds_max)
    };
    assert_eq!(rounds("rounds = 3"), (3, 15));
    assert_eq!(rounds("rounds = 40"), (40, 40));
    assert_eq!(rounds("rounds = 40\nrounds_max = 60"), (40, 60));
}

#[test]
fn a_full_plan_reads_back_as_it_was_meant() {
    let text = r#"
name = "mine"
label = "night 3"
seed = 7
[devices]
select = "vendor=nvidia"
[measure]
rounds = 4
noise_target = "0.5%"
visit_limit = "250ms"
validate = "all"
exit_on_error = true
rounds_max = 9
interval_target = "1%"
stop = "stable_noise"
batching = "never"
caches = "cold"
solutions = "best"
data = "trigonometric"
bounds = "pages"
load = "sustained"
load_time = "10s"
monitor = false
settle_limit = "none"
[limits]
task_time = "1.5min"
device_time = "1h"
devices_per_node = 8
[[sweep]]
family = "stream"
kernels = ["triad", "copy", "triad"]
dtypes = ["f64"]
elements = ["dram", "2^20", 1_048_576]
points_per_task = 3
[fit]
footprint_factor = 8
sizes_min = 5
mode = "seed"
"#;
    let plan = Plan::parse(text).expect("a plan");
    let measure = &plan.measure;
    assert_eq!((measure.rounds, measure.noise_target, measure.visit_ns_max), (4, 0.005, 250_000_000));
    assert_eq!((measure.validate_elements, measure.exit_on_error, measure.task_ns_max), (-1, true, 90_000_000_000));
    assert_eq!((measure.rounds_max, measure.interval_target, measure.stop), (9, 0.01, StopCriterion::StableNoise));
    assert_eq!(measure.caches, Caches::Cold);
    assert_eq!((measure.batching, measure.solutions), (Batching::Never, SolutionChoice::Best));
    assert_eq!((measure.data, measure.bounds), (DataPattern::Trigonometric, BoundsCheck::Pages));
    assert_eq!((measure.load, measure.load_ns), (Some(Load::Sustained), 10_000_000_000));
    assert_eq!((measure.monitor, measure.settle_ns_max), (false, 0));
    assert_eq!((plan.label.as_deref(), plan.seed), (Some("night 3"), 7));
    assert_eq!(plan.fit, fit::Options { footprint_factor: 8, sizes_min: 5, mode: fit::Mode::Seed });
    assert_eq!(
        plan.limits,
        Limits { device_ns_max: Some(3_600_000_000_000), devices_per_node: DevicesPerNode::AtMost(8) }
    );
    let sweep = &plan.sweeps[0];
    assert_eq!(sweep.kernels, ["triad", "copy"]);
    assert_eq!(sweep.sizes, [("elements", vec![Size::Elements(1 << 20), Size::Dram])]);
    assert_eq!(plan.digest(), Sha256Digest::of(text.as_bytes()).to_hex());
}

#[test]
fn tasks_are_split_named_and_the_same_every_time() {
    let text = "name = \"a\"\n[[sweep]]\nfamily = \"stream\"\nelements = [\"2^20\", \"2^22\", \"2^24\"]\npoints_per_task = 5\n";
    let plan = Plan::parse(text).expect("a plan");
    assert_eq!(
        plan.limits.devices_per_node.most(),
        1,
        "devices of a node are measured alone unless a plan says otherwise"
    );
    let devices = [sample_device("gpu-1", "a"), sample_device("gpu-2", "b")];
    let planned = tasks(&plan, &RunId::new("r"), &devices);
    // 3 sizes of 4 kernels make 3 tasks of at most 5 points, for 2 number formats on 2 devices.
    assert_eq!(planned.tasks.len(), 12);
    assert_eq!(planned.tasks[0].id.as_str(), "r-00000");
    assert_eq!(planned.tasks[0].title, "stream f32, 5 points, elements 1048576 to 4194304");
    let points: usize = planned.tasks.iter().map(|task| task.points.len()).sum();
    assert_eq!(points, 2 * 2 * 3 * 4);
    assert_eq!(planned, tasks(&plan, &RunId::new("r"), &devices));
    assert_eq!(admit(&plan, &[], &devices, &planned), Ok(()));
}

#[test]
fn dram_is_beyond_the_cache_of_the_device_and_what_does_not_fit_is_said() {
    let plan = Plan::parse(builtin("quick").expect("there")).expect("a plan");
    let planned = tasks(&plan, &RunId::new("r"), &[virtual_machine()]);
    assert_eq!(planned.tasks.len(), 1);
    assert!(planned.tasks[0].points.iter().all(|point| point.size("elements") == Some(1 << 28)), "{planned:?}");
    assert!(planned.notes.is_empty());
    let mut farther = plan.clone();
    farther.fit.footprint_factor = 8;
    let beyond = tasks(&farther, &RunId::new("r"), &[sample_device("gpu-1", "a")]);
    let nearer = tasks(&plan, &RunId::new("r"), &[sample_device("gpu-1", "a")]);
    let elements = |planned: &Planned| planned.tasks[0].points[0].size("elements");
    assert_eq!((elements(&nearer), elements(&beyond)), (Some(1 << 25), Some(1 << 26)), "dram is what the fit takes");

    let mut small = virtual_machine();
    small.facts.memory_bytes = 5 << 29;
    let planned = tasks(&plan, &RunId::new("r"), &[small.clone()]);
    assert_eq!(planned.tasks[0].points.len(), 2, "copy and scale fit, add and triad do not");
    assert_eq!(planned.notes.len(), 1);
    assert!(planned.notes[0].contains("elements = 268435456 dropped for add, triad on"), "{}", planned.notes[0]);
    assert!(planned.notes[0].contains("cpu-1 on laptop"), "{}", planned.notes[0]);

    small.facts.memory_bytes = 1 << 30;
    let planned = tasks(&plan, &RunId::new("r"), &[small.clone()]);
    let refusal = admit(&plan, &[], &[small], &planned).expect_err("nothing fits");
    assert!(matches!(refusal, Refusal::NothingFits { .. }), "{refusal}");
}

#[test]
fn a_plan_that_means_no_device_or_costs_too_much_is_refused() {
    let devices = [sample_device("gpu-1", "a")];
    let text = format!("name = \"a\"\n[devices]\nselect = \"vendor=amd\"\n{SWEEP}");
    let plan = Plan::parse(&text).expect("a plan");
    let planned = tasks(&plan, &RunId::new("r"), &devices);
    let sentence = admit(&plan, &[], &devices, &planned).expect_err("no device").to_string();
    assert!(sentence.starts_with("no device matches `vendor=amd`; connected devices: nvidia-h200-"), "{sentence}");

    let text = format!("name = \"a\"\n[limits]\ndevice_time = \"1ms\"\n{SWEEP}");
    let plan = Plan::parse(&text).expect("a plan");
    let planned = tasks(&plan, &RunId::new("r"), &devices);
    let refusal = admit(&plan, &[], &devices, &planned).expect_err("too dear");
    assert!(matches!(refusal, Refusal::OverBudget { .. }), "{refusal}");
}

#[test]
fn the_built_in_plans_are_plans_and_cost_what_they_promise() {
    for name in builtin_names() {
        let plan = Plan::parse(builtin(name).expect("listed")).expect("a plan");
        assert_eq!(plan.name, name);
        assert!(!plan.description.is_empty(), "{name} says what it is for");
    }
    assert_eq!(builtin("quik"), None);
    let minutes = |name: &str, device: FleetDevice| {
        let plan = Plan::parse(builtin(name).expect("listed")).expect("a plan");
        let estimates = estimate(&plan, &[device]);
        assert_eq!(estimates.len(), 1);
        estimates[0].device_minutes
    };
    let quick = minutes("quick", virtual_machine());
    assert!(quick < 1.0, "quick on two cores: {quick} minutes");
    let standard = minutes("standard", sample_device("gpu-1", "a"));
    assert!((0.1..3.0).contains(&standard), "standard on an H200: {standard} minutes");
}
