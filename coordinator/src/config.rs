//! Settings of a coordinator, checked once.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fleetcal_core::core::CoreConfig;

use crate::clock::nanoseconds;
use crate::error::CoordinatorError;

/// How long a lease lasts without a heartbeat, unless the settings say otherwise.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// How long tasks wait for an agent that is away, unless the settings say otherwise.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(60);

/// Heartbeats in a lease: two may be lost before it expires.
const HEARTBEATS_PER_LEASE: u32 = 3;

/// Where a coordinator listens, where it keeps everything, and how patient it is with agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinatorConfig {
    /// Address of the gRPC server; port 0 takes any free one. Loopback only.
    pub listen: SocketAddr,
    /// Folder of the journal, the rows and the constants; created if it is not there.
    pub data_folder: PathBuf,
    /// How long a lease lasts without a heartbeat.
    pub lease: Duration,
    /// How often agents are asked to send heartbeats: less than `lease`.
    pub heartbeat: Duration,
    /// How long the tasks of an agent that is away wait for it, before twins of its devices take them.
    pub grace: Duration,
}

impl CoordinatorConfig {
    /// Settings with a lease of 30 s and a heartbeat every 10 s.
    pub fn new(listen: SocketAddr, data_folder: impl Into<PathBuf>) -> Self {
        Self {
            listen,
            data_folder: data_folder.into(),
            lease: DEFAULT_LEASE,
            heartbeat: DEFAULT_LEASE / HEARTBEATS_PER_LEASE,
            grace: DEFAULT_GRACE,
        }
    }

    /// What of it concerns the core.
    pub(crate) fn core(&self) -> CoreConfig {
        CoreConfig { lease_ns: nanoseconds(self.lease), grace_ns: nanoseconds(self.grace), ..CoreConfig::default() }
    }

    /// Checks the settings against each other.
    ///
    /// # Errors
    /// [`CoordinatorError::NotLoopback`] or [`CoordinatorError::BadInterval`].
    pub fn check(&self) -> Result<(), CoordinatorError> {
        if !self.listen.ip().is_loopback() {
            return Err(CoordinatorError::NotLoopback { address: self.listen });
        }
        if self.heartbeat < Duration::from_millis(1) || self.heartbeat >= self.lease {
            return Err(CoordinatorError::BadInterval { heartbeat: self.heartbeat, lease: self.lease });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_let_in_and_everything_else_is_refused_with_the_reason() {
        let at = |address: &str| CoordinatorConfig::new(address.parse().expect("an address"), "data").check();
        assert!(at("127.0.0.1:0").is_ok());
        assert!(at("[::1]:7070").is_ok());
        let refused = at("0.0.0.0:7070").expect_err("any address needs TLS and a token").to_string();
        assert!(refused.contains("0.0.0.0:7070") && refused.contains("TLS"), "{refused}");
    }

    #[test]
    fn a_heartbeat_must_come_before_its_lease_ends() {
        let mut config = CoordinatorConfig::new(([127, 0, 0, 1], 0).into(), "data");
        config.heartbeat = config.lease;
        assert!(matches!(config.check(), Err(CoordinatorError::BadInterval { .. })));
    }
}
