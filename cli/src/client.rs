//! A connection to a coordinator's control service.

use std::time::{Duration, Instant};

use fleetcal_proto::auth::ClientAuth;
use fleetcal_proto::v1::control_client::ControlClient;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

use crate::failure::{Failure, Kind};

/// The control service, with credentials attached.
pub(crate) type Control = ControlClient<InterceptedService<Channel, ClientAuth>>;

/// Largest answer that is read: documents of a large fleet.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// First pause between tries; doubled up to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_millis(200);
/// Longest pause between tries.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Connects, waiting up to `wait` for a coordinator that is not there yet. The wait is said once.
///
/// # Errors
/// The address is none, or nobody answered in time.
pub(crate) async fn connect(url: &str, wait: Duration) -> Result<Control, Failure> {
    let endpoint = Endpoint::from_shared(url.to_owned())
        .map_err(|error| Failure::said(Kind::Network, format!("`{url}` is no coordinator's address: {error}")))?
        .connect_timeout(Duration::from_secs(5));
    let started = Instant::now();
    let mut pause = PAUSE_FIRST;
    loop {
        match endpoint.connect().await {
            Ok(channel) => {
                let auth = ClientAuth::new(None).map_err(Failure::internal)?;
                return Ok(ControlClient::with_interceptor(channel, auth).max_decoding_message_size(ANSWER_BYTES_MAX));
            }
            Err(error) if started.elapsed() + pause > wait => {
                let context =
                    format!("no coordinator answers at {url} (tried for {:.1} s)", started.elapsed().as_secs_f64());
                return Err(Failure::new(Kind::Network, anyhow::Error::new(error).context(context)));
            }
            Err(_) => {
                if pause == PAUSE_FIRST {
                    tracing::warn!("no coordinator answers at {url} yet, trying again for {} s", wait.as_secs());
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}
