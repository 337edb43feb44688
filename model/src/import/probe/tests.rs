use super::*;
use crate::device::Backend;
use crate::id::DeviceId;
use crate::row::{IntervalMethod, Origin, Status};
use crate::testing::h200_facts;

fn source(name: &str) -> Source {
    Source {
        device: h200_facts("GPU-A"),
        host: "host-1".to_owned(),
        name: name.to_owned(),
        clock: "cuda_event".to_owned(),
        data_pattern: "random".to_owned(),
    }
}

fn only(lines: &str) -> Row {
    let mut rows = rows(&format!("{HEADER}\n{lines}\n"), &source("a")).expect("rows of the probe");
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.remove(0)
}

#[test]
fn samples_of_one_series_are_one_row_that_says_where_it_comes_from() {
    let row = only(
        "stream,triad4,elems=1024,12288,0,1,256,0,0.003\nstream,triad4,elems=1024,12288,0,1,256,1,0.001\n\
         stream,triad4,elems=1024,12288,0,1,256,2,0.002",
    );
    assert_eq!((row.identity.origin, row.outcome.status), (Origin::Imported, Status::NoCheck));
    assert_eq!(row.work.point, "stream/triad/f32/elements=1024");
    assert_eq!((row.timing.estimate_ns, row.timing.samples.len()), (Some(2000.0), 3));
    assert_eq!(row.timing.interval_method, IntervalMethod::SingleVisit, "one visit has no interval");
    assert_eq!((row.counts.bytes_read, row.counts.bytes_written, row.counts.bytes_distinct), (8192, 4096, 12288));
    assert_eq!((row.device.backend.as_str(), row.device.device_uuid), (Backend::Cuda.name(), DeviceId::new("GPU-A")));
}

#[test]
fn counts_are_those_of_the_kernels() {
    let contraction = only("working_set,wgrad,m=256;n=8192;k=512,4311744512,2147483648,8192,256,0,1.0");
    // 8192 blocks of 256 threads on 132 multiprocessors that hold 2048: 1056 are resident.
    assert_eq!(contraction.counts.working_set_bytes, Some(4_311_744_512 / 8192 * 1056));
    let distinct = 4 * (256 * 512 + 8192 * 512 + 256 * 8192);
    assert_eq!((contraction.counts.bytes_distinct, contraction.counts.bytes_requested), (distinct, 4_311_744_512));
    let issue = only("issue,t32,m=512;n=512;k=256,0,134217728,256,64,0,0.046848");
    let context = LaunchContext { blocks: 256, threads: 64, operations: 134_217_728 };
    assert_eq!((issue.counts.scalar_ops, &issue.counts.launch_contexts[..]), (134_217_728, &[context][..]));
    let ladder = only("ladder,read4,footprint=1048576,4294967296,0,1056,256,0,1.010848");
    assert_eq!((ladder.counts.bytes_requested, ladder.counts.bytes_distinct), (4_294_967_296, 1_048_576));
    let peak = only("fmapeak,fma8,iters=2048,0,17716740096,132,256,0,0.279648");
    assert_eq!((peak.counts.flops, peak.work.sweep), (17_716_740_096, Sweep::Peak));
}

#[test]
fn launches_of_one_point_with_other_grids_are_other_rows_and_so_are_other_files() {
    let lines = format!(
        "{HEADER}\nreduce,sum4,elems=1048576,4194304,0,132,512,0,0.01\nreduce,sum4,elems=1048576,4194304,0,528,512,0,0.01\n"
    );
    let ids = |name: &str| -> Vec<_> {
        let rows = rows(&lines, &source(name)).expect("rows of the probe");
        rows.into_iter().map(|row| row.identity.row_id).collect()
    };
    let (first, second) = (ids("d-first"), ids("d-second"));
    assert_ne!(first[0], first[1], "two grids");
    assert!(first.iter().all(|id| !second.contains(id)), "two processes");
}

#[test]
fn what_is_not_the_probes_is_refused_with_its_line() {
    let fault = |text: &str| rows(text, &source("a")).expect_err("it is wrong").to_string();
    assert!(fault("a,b\n1,2\n").contains("the first line is `a,b`"));
    assert_eq!(fault(&format!("{HEADER}\n")), "it holds no rows");
    let line = |line: &str| fault(&format!("{HEADER}\n\n{line}\n"));
    assert_eq!(line("latency,empty,,0,0,1,32,0"), "line 3: 8 fields, not 9");
    assert_eq!(line("latency,empty,,0,0,one,32,0,0.1"), "line 3: blocks is `one`, not a number");
    for ms in ["NaN", "-1", "inf", "1e300"] {
        assert!(line(&format!("latency,empty,,0,0,1,32,0,{ms}")).contains("not a time"), "{ms}");
    }
    assert!(line("latency,full,,0,0,1,32,0,1").contains("no sweep `latency` has a kernel `full`"));
    assert!(line("stream,copy4,,8,0,1,32,0,1").contains("`elements` is missing"));
    assert!(line("stream,copy4,elems=x,8,0,1,32,0,1").contains("`elems=x` is no size"));
    assert!(line("stream,copy4,elems=9,8,0,1,32,0,1").contains("fewer bytes than are written"));
    assert!(line("stream,,elems=9,8,0,1,32,0,1").contains("no sweep `stream` has a kernel ``"));
}

#[test]
fn the_fixture_is_read_whole() {
    for name in ["a", "b", "d-first", "d-second"] {
        let path = format!("{}/../tests/fixtures/h200-probe/{name}.csv", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("a committed fixture");
        let rows = rows(&text, &source(name)).expect("rows of the probe");
        let samples: usize = rows.iter().map(|row| row.timing.samples.len()).sum();
        assert_eq!(samples, text.lines().count() - 1, "{name}: every line is a sample of a row");
        assert!(rows.iter().all(|row| row.feeds_fits()), "{name}: every row has an estimate");
    }
}
