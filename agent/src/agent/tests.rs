use super::*;
use crate::testing::device;

fn config(data_folder: &Path) -> AgentConfig {
    AgentConfig {
        deadlines: crate::Deadlines::default(),
        coordinator: "http://127.0.0.1:9".into(),
        data_folder: data_folder.to_owned(),
        node: None,
        rack: None,
        sim: SimSpec::default(),
        backends: None,
        monitor: true,
        worker_program: "/bin/false".into(),
        token: Some("secret".into()),
    }
}

#[tokio::test]
async fn a_second_agent_on_one_folder_is_refused_by_name() {
    let data = tempfile::tempdir().expect("a folder");
    let _first = lock_folder(data.path()).expect("nobody else is there");
    let error = run(config(data.path()), CancellationToken::new()).await.expect_err("the folder is taken");
    assert!(matches!(&error, AgentError::FolderInUse { folder } if folder == data.path()), "{error}");
    assert!(error.to_string().contains(&data.path().display().to_string()), "{error}");
}

#[tokio::test]
async fn a_data_folder_that_cannot_be_made_is_named() {
    let data = tempfile::tempdir().expect("a folder");
    let file = data.path().join("file");
    fs::write(&file, "").expect("it can be written");
    let error = run(config(&file), CancellationToken::new()).await.expect_err("a file is no folder");
    assert!(matches!(&error, AgentError::Folder { folder, .. } if *folder == file), "{error}");
}

#[tokio::test]
async fn a_crashed_discovery_is_a_sentence_and_so_is_a_program_that_is_not_there() {
    let data = tempfile::tempdir().expect("a folder");
    let error = run(config(data.path()), CancellationToken::new()).await.expect_err("the worker dies");
    assert!(matches!(&error, AgentError::Discovery { reason } if reason.contains("exit code 1")), "{error}");
    let error = discover(Path::new("/no/such/program"), data.path(), &SimSpec::default()).await;
    let error = error.expect_err("there is no program");
    assert!(error.to_string().contains("/no/such/program"), "{error}");
}

#[tokio::test]
async fn an_address_that_is_none_is_refused_with_an_example() {
    let data = tempfile::tempdir().expect("a folder");
    for address in ["", "127.0.0.1:7070", "ftp://host:1", "http://", "not an address"] {
        let config = AgentConfig { coordinator: address.into(), ..config(data.path()) };
        let error = run(config, CancellationToken::new()).await.expect_err("it is no address");
        assert!(matches!(&error, AgentError::Address { .. }), "`{address}`: {error}");
        assert!(error.to_string().contains("http://127.0.0.1:7600"), "{error}");
    }
}

#[test]
fn only_devices_of_wanted_backends_are_offered_and_their_lack_is_explained() {
    let report = |backend: &str, devices: &[&str], note: Option<&str>| BackendReport {
        backend: backend.into(),
        devices: devices.iter().map(|uuid| device(uuid)).collect(),
        note: note.map(str::to_owned),
    };
    let reports = [report("sim", &["SIM-1", "SIM-2"], None), report("hip", &[], Some("libamdhip64.so is not there"))];
    assert_eq!(offered(&reports, None).expect("there are devices").len(), 2);
    assert_eq!(offered(&reports, Some(&[Backend::Sim])).expect("there are devices").len(), 2);
    let error = offered(&reports, Some(&[Backend::Hip])).expect_err("there is no such device");
    let sentence = error.to_string();
    assert!(sentence.contains("sim: 2 found, not asked for"), "{sentence}");
    assert!(sentence.contains("hip: libamdhip64.so is not there"), "{sentence}");
}

#[test]
fn settings_never_show_the_token() {
    let shown = format!("{:?}", config(Path::new("/data")));
    assert!(!shown.contains("secret") && shown.contains("hidden"), "{shown}");
}
