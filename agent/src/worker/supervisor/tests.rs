//! The supervisor against shell scripts that behave well and badly. The real worker is tested with the real binary.

use super::*;

fn script(text: &str) -> Worker {
    start(text, &request(String::new()))
}

fn start(text: &str, request: &Request) -> Worker {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", text]);
    Worker::start(command, request).expect("a shell can be started")
}

fn request(data_folder: String) -> Request {
    Request::Discover { sim: crate::device::sim::SimSpec::default(), data_folder }
}

/// Shell words that write frames.
fn say(events: &[Event]) -> String {
    let octal = |byte: &u8| format!("\\{byte:03o}");
    let bytes = events.iter().flat_map(|event| encode(event).expect("an event can be encoded")).collect::<Vec<_>>();
    format!("printf '{}'", bytes.iter().map(octal).collect::<String>())
}

#[tokio::test]
async fn events_come_in_order_and_then_the_end() {
    let events = [Event::Note("it is late".to_owned()), Event::Done];
    let mut worker = script(&say(&events));
    for event in events {
        assert_eq!(worker.next_event().await.expect("a good worker"), Some(event));
    }
    assert_eq!(worker.next_event().await.expect("an orderly end"), None);
}

#[tokio::test]
async fn a_crash_names_the_signal_and_the_last_words() {
    let mut worker = script("echo the driver is unwell >&2; kill -SEGV $$");
    let error = worker.next_event().await.expect_err("it crashed").to_string();
    assert!(error.contains("signal 11 (SIGSEGV)"), "{error}");
    assert!(error.contains("the driver is unwell"), "{error}");
}

#[tokio::test]
async fn an_exit_without_a_last_word_is_a_death() {
    let mut worker = script(&format!("{}; exit 3", say(&[Event::Note("so far".to_owned())])));
    assert!(worker.next_event().await.is_ok_and(|event| event.is_some()), "the note must come first");
    let error = worker.next_event().await.expect_err("it never said how it went").to_string();
    assert!(error.contains("exit code 3"), "{error}");
}

#[tokio::test]
async fn a_crash_after_the_last_word_loses_nothing() {
    let mut worker = script(&format!("{}; kill -ABRT $$", say(&[Event::Done])));
    assert_eq!(worker.next_event().await.expect("the last word"), Some(Event::Done));
    assert_eq!(worker.next_event().await.expect("the work is done, however it exits"), None);
}

#[tokio::test]
async fn garbage_is_an_error_of_its_own() {
    let mut worker = script("echo this is no frame; exec cat >/dev/null");
    let error = worker.next_event().await.expect_err("that was no frame");
    assert!(matches!(error, WorkerError::Frame(FrameError::TooLarge { .. })), "{error}");
}

#[tokio::test]
async fn closing_its_input_stops_a_worker_and_keeps_what_it_said() {
    let last = Event::Failed { reason: "stopped".to_owned(), retry: true };
    let worker = script(&format!("cat >/dev/null; {}", say(std::slice::from_ref(&last))));
    assert_eq!(worker.stop(EXIT_GRACE).await.expect("it stops"), [last]);
}

#[tokio::test]
async fn a_worker_that_does_not_stop_is_killed() {
    let worker = script("while true; do sleep 1; done");
    assert_eq!(worker.stop(Duration::ZERO).await.expect("SIGKILL ends a shell"), []);
}

#[tokio::test]
async fn a_worker_that_never_reads_its_request_is_killed_too() {
    // More than a pipe holds.
    let request = request("folder".repeat(1 << 20));
    let mut worker = start(&format!("{}; exec sleep 1000", say(&[Event::Note("deaf".to_owned())])), &request);
    assert!(worker.next_event().await.is_ok_and(|event| event.is_some()), "nobody waits for it to read");
    assert_eq!(worker.stop(Duration::ZERO).await.expect("SIGKILL ends a shell"), []);
}

#[tokio::test]
async fn killing_a_worker_kills_what_it_started() {
    let mut worker = script(&format!("sleep 1000 & {}; wait", say(&[Event::Note("ready".to_owned())])));
    assert!(worker.next_event().await.is_ok_and(|event| event.is_some()), "it must run first");
    worker.kill().await.expect("SIGKILL ends a shell");
    // Standard error ends once nobody holds it any more, the shell's child included.
    timeout(EXIT_GRACE, &mut worker.errors).await.expect("its child must be gone too").expect("the reader ends well");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let error = Worker::spawn(Path::new("/nowhere/fleetcal"), &[], &request(String::new()))
        .expect_err("there is none")
        .to_string();
    assert!(error.contains("/nowhere/fleetcal"), "{error}");
}
