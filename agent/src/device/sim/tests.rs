use fleetcal_kernels::stream::Stream;
use fleetcal_kernels::{BufferSpec, Family};
use fleetcal_model::point::Dtype;

use super::*;

fn spec(text: &str) -> SimSpec {
    text.parse().expect("a specification")
}

fn device(spec: &SimSpec, uuid: &str) -> SimDevice {
    SimDevice::open(&spec.model.facts(uuid.into()), spec)
}

/// One visit in each of `rounds` rounds with fresh buffers: the times, and what the first elements of the output hold.
fn measure(device: &mut SimDevice, point: &Point, rounds: u64) -> Result<(Vec<Vec<u64>>, Vec<f64>), DeviceError> {
    let solution = Stream.solutions(point, device.facts()).remove(0);
    let prepared = device.prepare(&[(point.clone(), solution)]).remove(0)?;
    let specs = Stream.buffers(point);
    let (mut times, mut values) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let buffers: Vec<SimBuffer> =
            specs.iter().map(|spec| device.allocate(spec.bytes(), PageGuard::None)).collect::<Result<_, _>>()?;
        let arrays: Vec<Array<'_, SimBuffer>> = specs
            .iter()
            .zip(&buffers)
            .map(|(spec, buffer)| Array { buffer, offset_bytes: 0, spec: spec.clone() })
            .collect();
        for array in &arrays {
            match array.spec.role {
                BufferRole::Input { seed } => device.fill(array, &random(array, seed))?,
                BufferRole::Output | BufferRole::Scratch => device.set(array, nan_bits(array.spec.dtype))?,
            }
        }
        times.push(
            device
                .time(&prepared, &arrays, Series { intervals: 5, launches: 1, flush_bytes: None })?
                .iter()
                .map(|sample| sample.ns)
                .collect(),
        );
        values = device.gather(&arrays[0], arrays[0].spec.elements / 4)?;
    }
    Ok((times, values))
}

fn triad(elements: u64) -> Point {
    format!("stream/triad/f32/elements={elements}").parse().expect("a point")
}

#[test]
fn the_same_seed_and_device_repeat_and_others_do_not() {
    let times =
        |text: &str, uuid: &str| measure(&mut device(&spec(text), uuid), &triad(1 << 24), 2).expect("it runs").0;
    let first = times("1,seed=7", "SIM-a");
    assert_eq!(first, times("1,seed=7", "SIM-a"));
    assert_ne!(first, times("1,seed=8", "SIM-a"), "the seed must matter");
    assert_ne!(first, times("1,seed=7", "SIM-b"), "the device must matter");
    assert_ne!(first[0], first[1], "rounds must differ");
}

#[test]
fn large_arrays_run_at_the_bandwidth_of_memory_and_small_ones_faster() {
    let constants = SimModel::S1.constants();
    let rate = |elements: u64| {
        let mut device = device(&spec("1"), "SIM-a");
        let point = triad(elements);
        let slowdown = solution_slowdown(&Stream.solutions(&point, device.facts())[0].name);
        let (times, _) = measure(&mut device, &point, 1).expect("it runs");
        let seconds = times[0][0] as f64 * 1e-9 / slowdown;
        3.0 * 4.0 * elements as f64 / (seconds - constants.launch_latency_s)
    };
    let (large, small) = (rate(1 << 28) / constants.memory_bandwidth, rate(1 << 20) / constants.l2_bandwidth);
    assert!((large - 1.0).abs() < 0.03, "memory rate is off by the factor {large}");
    assert!((0.5..1.1).contains(&small), "cache rate is off by the factor {small}");
}

#[test]
fn every_fault_is_what_it_says() {
    let run = |text: &str, rounds: u64| measure(&mut device(&spec(text), "SIM-a"), &triad(1 << 20), rounds);
    let (_, right) = run("1", 1).expect("it runs");
    let (_, wrong) = run("1,fault=wrong_result:triad", 1).expect("it runs");
    assert_eq!(right[0], Stream.reference(&triad(1 << 20), DataPattern::Random, 0)(0).value);
    assert!(right.iter().zip(&wrong).all(|(right, wrong)| right != wrong), "{right:?} {wrong:?}");
    assert_eq!(run("1,fault=wrong_result:copy", 1).expect("it runs").1, right, "other kernels stay right");
    assert!(run("1,fault=lost:2", 2).is_ok(), "two visits end well");
    assert!(matches!(run("1,fault=lost:2", 3), Err(DeviceError::Lost { .. })), "the third does not");
    assert!(matches!(run("1,fault=oom", 1), Err(DeviceError::OutOfMemory { free_bytes: 0, .. })));
    let solution = Stream.solutions(&triad(1 << 20), &SimModel::S1.facts("SIM-a".into())).remove(0).name;
    for (fault, said) in [("compile", "does not compile"), ("unloadable", "cannot be loaded")] {
        let outcome = run(&format!("1,fault={fault}:{solution}"), 1);
        let error = outcome.expect_err(fault).to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_stray_access_is_seen_in_memory_and_ends_the_context_at_a_guarded_page() {
    const ELEMENTS: u64 = 1 << 15;
    let point: Point = format!("stream/copy/f32/elements={ELEMENTS}").parse().expect("a point");
    for (access, side) in
        [("reads_beyond", PageGuard::Back), ("writes_beyond", PageGuard::Back), ("writes_before", PageGuard::Front)]
    {
        let mut device = device(&spec(&format!("1,fault=off_by_one:copy:{access}")), "SIM-a");
        let solution = Stream.solutions(&point, device.facts()).remove(0);
        let prepared = device.prepare(&[(point.clone(), solution)]).remove(0).expect("it compiles");
        let specs = Stream.buffers(&point);
        let mut run = |guard, room_bytes: u64| {
            let buffers = [0, 1].map(|_| device.allocate(4 * ELEMENTS + 2 * room_bytes, guard).expect("there is room"));
            let array = |index: usize, first: u64, elements: u64| {
                let spec = BufferSpec { elements, ..specs[index].clone() };
                Array { buffer: &buffers[index], offset_bytes: (room_bytes + 4 * first).saturating_sub(4), spec }
            };
            for index in (0..2).filter(|_| room_bytes > 0) {
                device.set(&array(index, 0, ELEMENTS + 2), nan_bits(Dtype::F32)).expect("it is set");
            }
            let arrays = [0, 1].map(|index| Array { offset_bytes: room_bytes, ..array(index, 1, ELEMENTS) });
            device.fill(&arrays[1], &random(&arrays[1], 1)).expect("it can be filled");
            device.run(&prepared, &arrays)?;
            let found = device.gather(&array(0, 0, ELEMENTS + 2), 1).expect("it can be read");
            Ok::<_, DeviceError>([
                found[0].is_nan(),
                found[ELEMENTS as usize].is_nan(),
                found[found.len() - 1].is_nan(),
            ])
        };
        let expected = match access {
            "reads_beyond" => [true, true, true],
            "writes_beyond" => [true, false, false],
            _ => [false, false, true],
        };
        assert_eq!(run(PageGuard::None, 64), Ok(expected), "{access}: no number before, in the last element, behind");
        assert!(matches!(run(side, 0), Err(DeviceError::Lost { .. })), "{access} at a guarded page");
        let after = device.allocate(4, PageGuard::None).map(drop);
        assert!(matches!(after, Err(DeviceError::Lost { .. })), "a lost context stays lost: {after:?}");
    }
}

#[test]
fn a_kernel_on_wrong_inputs_gives_wrong_results() {
    let mut device = device(&spec("1"), "SIM-a");
    let point = triad(1 << 15);
    let solution = Stream.solutions(&point, device.facts()).remove(0);
    let prepared = device.prepare(&[(point.clone(), solution)]).remove(0).expect("it compiles");
    let buffers = [0, 1, 2].map(|_| device.allocate(1 << 17, PageGuard::None).expect("there is room"));
    let specs = Stream.buffers(&point);
    let arrays: Vec<_> = specs
        .iter()
        .zip(&buffers)
        .map(|(spec, buffer)| Array { buffer, offset_bytes: 0, spec: spec.clone() })
        .collect();
    device.fill(&arrays[1], &random(&arrays[1], 1)).expect("it can be filled");
    device.fill(&arrays[2], &random(&arrays[2], 99)).expect("it can be filled");
    device.run(&prepared, &arrays).expect("it runs");
    let found = device.gather(&arrays[0], 1 << 14).expect("it can be read");
    assert_ne!(
        found[0],
        Stream.reference(&point, DataPattern::Random, 0)(0).value,
        "seed 99 is not what triad's reference presumes"
    );
    let error = device.run(&prepared, &arrays[..2]).expect_err("an array is missing");
    assert!(matches!(error, DeviceError::Launch { .. }), "{error}");
}

/// Random input data of a seed for an array.
fn random<Buffer>(array: &Array<'_, Buffer>, seed: u64) -> InputData {
    let BufferSpec { dtype, elements, .. } = array.spec;
    InputData { pattern: DataPattern::Random, seed, dtype, row_elements: elements, first_element: 0 }
}
