use super::*;

const KERNELS: [(&str, Kernel); 4] =
    [("copy", Kernel::Copy), ("scale", Kernel::Scale), ("add", Kernel::Add), ("triad", Kernel::Triad)];

/// Every set of instructions that this processor can run.
fn runnable() -> Vec<Instructions> {
    let mut all = vec![Instructions::Baseline];
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx2") {
            all.push(Instructions::Avx2);
        }
        if Instructions::detect() == Instructions::Avx512 {
            all.push(Instructions::Avx512);
        }
    }
    all
}

type Run<T> = fn(Kernel, Instructions, Operands<'_, T>);

/// Runs the kernel over every misalignment of the output and short odd lengths, and compares element by element.
fn check<T: Number + PartialEq + std::fmt::Debug + Default>(run: Run<T>, what: &str) {
    let input = |seed: u64| -> Vec<T> {
        (0..200).map(|index| T::from_element(fleetcal_kernels::data::random_element(seed, index))).collect()
    };
    let (first, second) = (input(1), input(2));
    for (name, kernel) in KERNELS {
        for instructions in runnable() {
            for (start, length) in (0..17).flat_map(|start| [0, 1, 15, 64, 131].map(|length| (start, length))) {
                let mut output = [T::default(); 200];
                let operands = Operands {
                    first: &first[3..3 + length],
                    second: if kernel.inputs() == 2 { &second[5..5 + length] } else { &[] },
                    output: &mut output[start..start + length],
                };
                run(kernel, instructions, operands);
                for (index, found) in output.iter().enumerate() {
                    let expected = match index.checked_sub(start).filter(|position| *position < length) {
                        None => T::default(),
                        Some(position) => {
                            let (left, right) = (first[3 + position], second[5 + position]);
                            match kernel {
                                Kernel::Copy => left,
                                Kernel::Scale => left.scaled(),
                                Kernel::Add => left.plus(right),
                                Kernel::Triad => left.plus(right.scaled()),
                            }
                        }
                    };
                    assert_eq!(
                        *found, expected,
                        "{what} {name} {instructions:?}, {length} from {start}: element {index}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_kernel_writes_its_part_and_nothing_else() {
    check::<f32>(plain, "plain f32");
    check::<f64>(plain, "plain f64");
    check::<f32>(f32::nontemporal, "nontemporal f32");
    check::<f64>(f64::nontemporal, "nontemporal f64");
}

#[test]
fn kernels_have_the_names_and_inputs_of_the_family() {
    use fleetcal_kernels::Family;
    for name in fleetcal_kernels::stream::Stream.kernels() {
        let kernel = Kernel::from_name(name).unwrap_or_else(|| panic!("the cpu backend has no kernel `{name}`"));
        let (_, known) = KERNELS.iter().find(|(known, _)| known == name).expect("listed above");
        assert_eq!(kernel, *known);
    }
    assert_eq!(Kernel::from_name("dot"), None);
}

#[test]
fn random_data_is_the_same_in_every_set_of_instructions() {
    for instructions in runnable() {
        let mut output = [0.0_f32; 100];
        fill_random(instructions, 9, 1000, &mut output);
        for (position, found) in output.iter().enumerate() {
            let expected = fleetcal_kernels::data::random_element(9, 1000 + position as u64);
            assert_eq!(f64::from(*found), expected, "{instructions:?}, element {position}");
        }
    }
}
