//! The real core among naive agents that die, come back, answer late and twice, while users submit, cancel and resume
//! and the coordinator restarts. After every step the invariants hold; once everybody behaves, every task ends.
//!
//! A failing seed is printed; `FLEETCAL_SEED=N cargo test -p fleetcal-core --test simulation` replays it alone, and
//! `FLEETCAL_SEEDS=N` runs that many.

#![allow(clippy::expect_used, clippy::panic, reason = "all of this is a test")]

mod node;
mod random;
mod world;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fleetcal_core::core::Run;
use fleetcal_core::event::TaskEnd;

use node::Link;
use world::{SECOND_NS, World};

const SEEDS: u64 = 100;
const CHAOS_STEPS: usize = 200;
/// With every agent well, rounds of asking and finishing after which nothing may be left.
const CALM_ROUNDS: usize = 400;

#[test]
fn invariants_hold_and_every_task_ends_whatever_happens() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("FLEETCAL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FLEETCAL_SEEDS").unwrap_or(SEEDS),
    };
    let whole = seeds.end - seeds.start >= SEEDS;
    let mut reached = BTreeSet::new();
    for seed in seeds {
        match catch_unwind(AssertUnwindSafe(|| simulate(seed))) {
            Ok(more) => reached.extend(more),
            Err(_) => panic!(
                "seed {seed} fails; to replay it: FLEETCAL_SEED={seed} cargo test -p fleetcal-core --test simulation"
            ),
        }
    }
    if whole {
        // A fault that was never injected proves nothing.
        let wanted = BTreeSet::from([
            "pending",
            "leased",
            "done",
            "failed",
            "set aside",
            "expired",
            "abandoned",
            "revoked",
            "cancelled while leased",
            "restarted",
            "late answer",
            "lapsed lease kept",
            "moved to a twin",
            "measured beside a neighbour",
        ]);
        assert_eq!(wanted.difference(&reached).collect::<Vec<_>>(), Vec::<&&str>::new(), "never reached");
    }
}

fn simulate(seed: u64) -> BTreeSet<&'static str> {
    let mut world = World::new(seed);
    for index in 0..world.nodes.len() {
        world.join(index);
    }
    world.submit();
    for _ in 0..CHAOS_STEPS {
        disturb(&mut world);
        world.note_states();
    }
    calm(&mut world);
    assert_eq!(world.replayed().ledger(), world.core.ledger(), "the journal restores another ledger");
    world.check_rows();
    world.note_states();
    world.reached
}

/// One thing that can happen.
fn disturb(world: &mut World) {
    let index = world.random.below(world.nodes.len());
    match world.random.below(100) {
        0..=24 => world.ask(index),
        25..=39 => world.beat(index),
        40..=59 => {
            let end = some_end(world);
            world.finish(index, end);
        }
        60..=69 => {
            let ns = world.random.below(20) as u64 * SECOND_NS;
            world.pass(ns);
        }
        70..=71 => {
            let ns = world.random.below(1200) as u64 * SECOND_NS;
            world.pass(ns);
        }
        72..=77 => world.cut(index, false),
        78..=80 => world.cut(index, true),
        81 => world.leave(index),
        82..=90 => {
            if world.nodes[index].link != Link::Open || world.random.percent(20) {
                world.join(index);
            }
        }
        91..=93 => world.deliver_late(index),
        94 if world.random.percent(50) => world.submit(),
        95 => world.cancel(),
        96..=97 => world.resume(),
        99 => world.restart(),
        _ => world.beat(index),
    }
}

fn some_end(world: &mut World) -> TaskEnd {
    let reason = "the device is hot".to_owned();
    match world.random.below(10) {
        0 => TaskEnd::Failed { reason, retry: false },
        1..=3 => TaskEnd::Failed { reason, retry: true },
        4 => TaskEnd::Released { reason },
        5 => TaskEnd::Done { dropped: vec!["stream/copy/f32/elements=1048576: too large".to_owned()] },
        _ => TaskEnd::Done { dropped: Vec::new() },
    }
}

/// Everybody is well: what was on its way arrives, and every task has to end.
fn calm(world: &mut World) {
    for index in 0..world.nodes.len() {
        world.deliver_late(index);
        world.join(index);
    }
    for _ in 0..CALM_ROUNDS {
        if world.core.runs().all(Run::is_over) {
            return;
        }
        for index in 0..world.nodes.len() {
            world.beat(index);
            world.ask(index);
            world.finish(index, TaskEnd::Done { dropped: Vec::new() });
            world.deliver_late(index);
        }
        world.pass(SECOND_NS);
    }
    let left: Vec<_> = world.core.runs().map(|run| (&run.id, world.core.task_counts(&run.id))).collect();
    panic!("tasks are left after {CALM_ROUNDS} calm rounds: {left:#?}");
}
