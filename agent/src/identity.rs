//! Who this agent is: one identity a data folder, made once and kept.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fleetcal_model::digest::Sha256Digest;
use fleetcal_model::id::{AgentId, DeviceId};
use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid};

/// Name of the file in the data folder.
const FILE_NAME: &str = "identity.json";
/// Version of the file's layout.
const VERSION: u64 = 1;

/// An identity that could not be had.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file is there and cannot be read.
    #[error("the agent's identity {path} cannot be read: {source}; make it readable for this user")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be written.
    #[error(
        "the agent's identity {path} cannot be written: {source}; give --data a folder on a disk with room, writable for this user"
    )]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no identity.
    #[error("{path} is no agent identity: {reason}; restore it, or remove it to make this a new agent")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// The identity of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    agent_id: AgentId,
    node_seed: Uuid,
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u64,
    agent_id: AgentId,
    node_seed: String,
}

impl Identity {
    /// Reads the identity of a data folder, or makes folder and identity. Of several processes that make it at once, one
    /// wins, and all get the winner's.
    ///
    /// # Errors
    /// [`IdentityError`]
    pub fn load_or_create(data_folder: &Path) -> Result<Self, IdentityError> {
        let path = data_folder.join(FILE_NAME);
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let fresh = Self::fresh();
                fresh.publish(&path).map_err(|source| IdentityError::Unwritable { path: path.clone(), source })?;
                let text = fs::read_to_string(&path);
                Self::parse(&path, &text.map_err(|source| IdentityError::Unreadable { path: path.clone(), source })?)
            }
            Err(source) => Err(IdentityError::Unreadable { path, source }),
        }
    }

    /// Reads the identity of a data folder; where there is none, one that nobody keeps. Writes nothing.
    ///
    /// # Errors
    /// [`IdentityError::Unreadable`], [`IdentityError::Malformed`].
    pub fn load_or_make_up(data_folder: &Path) -> Result<Self, IdentityError> {
        let path = data_folder.join(FILE_NAME);
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::fresh()),
            Err(source) => Err(IdentityError::Unreadable { path, source }),
        }
    }

    /// Whether a data folder has an identity.
    pub fn is_there(data_folder: &Path) -> bool {
        data_folder.join(FILE_NAME).exists()
    }

    fn fresh() -> Self {
        Self { agent_id: AgentId::new(format!("agent-{}", Uuid::now_v7())), node_seed: Uuid::new_v4() }
    }

    /// The agent's name towards the coordinator.
    pub fn agent_id(&self) -> &AgentId {
        &self.agent_id
    }

    /// The UUID of the `index`-th simulated device: its own for each data folder, so that many agents can share a
    /// machine.
    pub fn sim_uuid(&self, index: u64) -> DeviceId {
        DeviceId::new(format!("SIM-{}", derived(&format!("sim device {index} of {}", self.node_seed))))
    }

    /// The UUID of the host processor where the machine has no identity of its own.
    fn cpu_uuid(&self) -> DeviceId {
        DeviceId::new(format!("CPU-{}", derived(&format!("cpu of {}", self.node_seed))))
    }

    fn parse(path: &Path, text: &str) -> Result<Self, IdentityError> {
        let malformed = |reason: String| IdentityError::Malformed { path: path.to_owned(), reason };
        let document: Document = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        if document.version != VERSION {
            return Err(malformed(format!("its version is {}, this program reads {VERSION}", document.version)));
        }
        if document.agent_id.is_empty() {
            return Err(malformed("its agent_id is empty".to_owned()));
        }
        let node_seed = Uuid::parse_str(&document.node_seed).map_err(|error| malformed(error.to_string()))?;
        Ok(Self { agent_id: document.agent_id, node_seed })
    }

    /// Puts the file in its place whole and on the disk, unless another process was faster.
    fn publish(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let document =
            Document { version: VERSION, agent_id: self.agent_id.clone(), node_seed: self.node_seed.to_string() };
        let temporary = folder.join(format!(".{FILE_NAME}.{}", self.node_seed));
        let written = (|| {
            let mut file = File::create_new(&temporary)?;
            file.write_all(&serde_json::to_vec_pretty(&document)?)?;
            file.sync_all()?;
            // Unlike a rename, a link does not replace what is there.
            match fs::hard_link(&temporary, path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                outcome => outcome,
            }
        })();
        match fs::remove_file(&temporary) {
            Err(error) if written.is_ok() => Err(error),
            _ => written,
        }?;
        File::open(folder)?.sync_all()
    }
}

/// The UUID of the host processor: from the machine's own identity below `root` (`/`, but in tests), so that two agents
/// on one machine see one device; else from the agent's; `None` where there is neither.
pub fn cpu_uuid(root: &Path, identity: Option<&Identity>) -> Option<DeviceId> {
    let own = part_of_machine(root, "cpu").map(|uuid| DeviceId::new(format!("CPU-{uuid}")));
    own.or_else(|| identity.map(Identity::cpu_uuid))
}

/// A UUID of a part of the machine, from the machine's own identity below `root`; `None` where it has none.
pub(crate) fn part_of_machine(root: &Path, part: &str) -> Option<Uuid> {
    // systemd asks that this number be hashed before anybody sees it (machine-id(5)).
    let machine_id = fs::read_to_string(root.join("etc/machine-id")).unwrap_or_default();
    let machine_id = machine_id.trim();
    let is_one = machine_id.len() == 32 && machine_id.bytes().all(|letter| letter.is_ascii_hexdigit());
    is_one.then(|| derived(&format!("{part} of machine {machine_id}")))
}

/// A UUID of version 8 from the SHA-256 of a name.
fn derived(name: &str) -> Uuid {
    let digest = Sha256Digest::of(format!("fleetcal {name}").as_bytes()).to_hex();
    let bits = u128::from_str_radix(&digest[..32], 16).unwrap_or_default();
    Builder::from_custom_bytes(bits.to_be_bytes()).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_made_once_and_kept() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("deep/data");
        let first = Identity::load_or_create(&data).expect("it can be made");
        assert_eq!(Identity::load_or_create(&data).expect("it can be read"), first);
        let names: Vec<_> = fs::read_dir(&data)
            .expect("the folder is there")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(names, [FILE_NAME], "nothing temporary may stay");
        assert_eq!(Identity::load_or_make_up(&data).expect("it can be read"), first, "what is there counts");
        let nowhere = folder.path().join("nowhere");
        assert!(Identity::load_or_make_up(&nowhere).is_ok() && !nowhere.exists(), "looking leaves no trace");
        let other = Identity::load_or_create(&folder.path().join("other")).expect("it can be made");
        assert_ne!(first.agent_id(), other.agent_id());
        assert_ne!(first.sim_uuid(0), other.sim_uuid(0), "simulated devices belong to their data folder");
        assert_ne!(first.sim_uuid(0), first.sim_uuid(1));
        assert_eq!(first.sim_uuid(1), first.sim_uuid(1));
    }

    #[test]
    fn of_processes_that_make_it_at_once_all_get_the_same() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let identities: Vec<Identity> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| Identity::load_or_create(folder.path()).expect("it can be made")))
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(identities.iter().all(|identity| *identity == identities[0]), "{identities:?}");
    }

    #[test]
    fn bad_files_are_named_with_what_to_do() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(FILE_NAME);
        let seed = Uuid::nil();
        for text in [
            "",
            "{}",
            r#"{"version":2,"agent_id":"a","node_seed":"00000000-0000-0000-0000-000000000000"}"#,
            r#"{"version":1,"agent_id":"","node_seed":"00000000-0000-0000-0000-000000000000"}"#,
            r#"{"version":1,"agent_id":"a","node_seed":"no uuid"}"#,
        ] {
            fs::write(&path, text).expect("a file can be written");
            let error = Identity::load_or_create(folder.path()).expect_err(&format!("{seed}: `{text}` is no identity"));
            assert!(matches!(error, IdentityError::Malformed { .. }), "{error}");
            assert!(error.to_string().contains("identity.json"), "{error}");
        }
        let blocked = folder.path().join("file/data");
        fs::write(folder.path().join("file"), "").expect("a file can be written");
        assert!(Identity::load_or_create(&blocked).is_err(), "a data folder below a file cannot be made");
    }

    #[test]
    fn the_cpu_is_the_machines_and_else_the_agents() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (root, etc) = (folder.path(), folder.path().join("etc"));
        let one = Identity::load_or_create(&root.join("1")).expect("it can be made");
        let two = Identity::load_or_create(&root.join("2")).expect("it can be made");
        assert_ne!(cpu_uuid(root, Some(&one)), cpu_uuid(root, Some(&two)), "without a machine-id agents differ");
        assert_eq!(cpu_uuid(root, None), None);
        fs::create_dir_all(&etc).expect("a folder can be made");
        fs::write(etc.join("machine-id"), "uninitialized\n").expect("a file can be written");
        assert_eq!(cpu_uuid(root, None), None, "an image's placeholder is no identity");
        fs::write(etc.join("machine-id"), "3d1219c7c4c5404aaa1f6d2a48adfda4\n").expect("a file can be written");
        let machine = cpu_uuid(root, Some(&one)).expect("the machine has an identity");
        assert_eq!(Some(&machine), cpu_uuid(root, Some(&two)).as_ref(), "agents of one machine must agree");
        assert!(!machine.as_str().contains("3d1219c7"), "the machine-id itself must not be shown");
    }
}
