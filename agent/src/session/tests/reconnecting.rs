//! Losing the coordinator, and finding it again.

use super::*;

#[tokio::test]
async fn an_agent_waits_for_its_coordinator() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let _agent = Agent::start(address, &["SIM-1"]);
    // Somebody else answers first, and hangs up.
    let listener = tokio::net::TcpListener::bind(address).await.expect("the port is free still");
    drop(in_time("the first try", listener.accept()).await.expect("a connection"));
    let mut coordinator = Coordinator::start_on(listener);
    assert_eq!(coordinator.accept().await.held, []);
}

#[tokio::test]
async fn measuring_goes_on_without_a_coordinator_and_the_lease_is_claimed_again() {
    let (mut coordinator, agent, worker) = at_work().await;
    measure(&worker, 0, 2);
    coordinator.break_streams();
    worker.say(Event::Visited(visit(0, 3)));
    close(&worker, 0);
    let hello = coordinator.accept().await;
    assert_eq!(hello.held, [v1::HeldLease::from(&lease("task-1"))]);

    worker.say(Event::Done);
    worker.leave();
    let (_, ended) = coordinator.finish().await;
    assert_eq!(ended.outcome(), v1::TaskOutcome::Done, "{ended:?}");
    assert_eq!(agent.spooled("chunks"), 0);
}

#[tokio::test]
async fn what_was_not_acknowledged_is_sent_again_in_order_with_the_same_identity() {
    let (mut coordinator, _agent, worker) = at_work().await;
    let mut first = Vec::new();
    for row in 0..3 {
        measure(&worker, row, 3);
        close(&worker, row);
        // Each row a chunk of its own: the collector cuts after a second.
        first.push(coordinator.chunk().await.chunk_id);
    }
    coordinator.break_streams();
    coordinator.accept().await;
    let mut again = Vec::new();
    while again.len() < first.len() {
        match coordinator.next("a chunk").await {
            Seen::Chunk(chunk) => again.push(chunk.chunk_id),
            other => panic!("not a chunk: {other:?}"),
        }
    }
    assert_eq!(again, first);
}

#[tokio::test]
async fn a_lost_lease_stops_its_task_keeps_its_rows_and_is_not_told() {
    let (mut coordinator, mut agent, worker) = at_work().await;
    measure(&worker, 0, 2);
    coordinator.answer_hello(Ok(vec![(&lease("task-1")).into()]));
    coordinator.break_streams();
    coordinator.accept().await;
    in_time("the task", worker.stopped()).await;
    worker.leave();

    let chunk = loop {
        match coordinator.next("its rows").await {
            Seen::Chunk(chunk) => break chunk,
            Seen::Message(v1::agent_message::Body::WorkRequest(_)) | Seen::Detached => {}
            other => panic!("nothing else is to be told: {other:?}"),
        }
    };
    assert_eq!(chunk.segments[0].rows, 1);
    coordinator.acknowledge(&chunk);
    // The device is free for other work.
    coordinator.tell(grant("task-2", "SIM-1"));
    agent.worker().await;
}

#[tokio::test]
async fn an_end_that_may_not_have_arrived_is_told_again() {
    let (mut coordinator, _agent, worker) = at_work().await;
    worker.say(Event::Done);
    worker.leave();
    let ended = coordinator.ended().await;
    coordinator.break_streams();
    let hello = coordinator.accept().await;
    assert_eq!(hello.held, [v1::HeldLease::from(&lease("task-1"))], "the coordinator may not know of the end");
    assert_eq!(coordinator.ended().await, ended);
}
