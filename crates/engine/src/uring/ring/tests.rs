//! Tests of the rings with real sockets.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use super::*;
use crate::Clock;
use crate::coroutines::executor::{Executor, yield_now};

fn executor(connections: usize) -> Rc<Executor<Rings>> {
    Executor::with_reactor(Clock::start(), Rings::new(connections).unwrap())
}

async fn connected(rings: &Rings, address: SocketAddr) -> io::Result<Connection> {
    let attempt = rings.connect(address)?;
    poll_fn(|cx| attempt.poll(cx)).await;
    attempt.is_connected()?;
    Ok(attempt.into_connection().unwrap())
}

#[test]
fn bytes_are_sent_and_received() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 5];
        stream.read_exact(&mut request).unwrap();
        stream.write_all(&request).unwrap();
    });
    let executor = executor(1);
    let rings = Rc::clone(executor.reactor());
    let echo = async {
        let connection = connected(&rings, address).await.unwrap();
        assert_eq!(connection.send(b"hello".to_vec()).await.unwrap(), 5);
        let mut receiver = connection.receiver();
        let bytes = poll_fn(|cx| receiver.poll(cx)).await.unwrap();
        assert_eq!(bytes.as_slice(), b"hello");
        let end = poll_fn(|cx| receiver.poll(cx)).await.unwrap();
        assert!(end.is_empty());
    };
    executor.run(echo).unwrap();
    server.join().unwrap();
}

#[test]
fn a_closed_port_refuses_the_connection() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let executor = executor(1);
    let rings = Rc::clone(executor.reactor());
    let refused = executor.run(async { connected(&rings, address).await.err().unwrap() }).unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn connections_beyond_one_ring_are_served_by_others() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let executor = executor(1);
    let rings = Rc::clone(executor.reactor());
    let all = async {
        let (connections, mut streams) = connect_all(&rings, &listener, MIN_CONNECTIONS + 100).await;
        assert_eq!(rings.rings.borrow().len(), 2);
        for (connection, stream) in connections.iter().zip(&mut streams) {
            stream.write_all(b"x").unwrap();
            let mut receiver = connection.receiver();
            assert_eq!(poll_fn(|cx| receiver.poll(cx)).await.unwrap().as_slice(), b"x");
        }
        drop(connections);
        assert!(rings.rings.borrow().iter().all(|ring| ring.connections.get() == 0));
    };
    executor.run(all).unwrap();
}

/// Both ends of this many connections. Accepted in batches, because few fit into the listener's queue.
async fn connect_all(rings: &Rings, listener: &TcpListener, count: usize) -> (Vec<Connection>, Vec<TcpStream>) {
    let address = listener.local_addr().unwrap();
    let (mut connections, mut streams) = (Vec::new(), Vec::new());
    while connections.len() < count {
        let batch_size = (count - connections.len()).min(64);
        let attempts: Vec<_> = (0..batch_size).map(|_| rings.connect(address).unwrap()).collect();
        poll_fn(|cx| match attempts.iter().filter(|attempt| attempt.poll(cx).is_pending()).count() {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
        connections.extend(attempts.into_iter().map(|attempt| attempt.into_connection().unwrap()));
        streams.extend((0..batch_size).map(|_| listener.accept().unwrap().0));
    }
    (connections, streams)
}

/// Waits until `poll` is ready, and returns its value; `None` if that takes more than 20 seconds.
async fn in_time<T>(executor: &Executor<Rings>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    let (mut alarm, deadline) = (executor.alarm(), executor.now() + Duration::from_secs(20));
    poll_fn(|cx| match poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value).filter(|_| executor.now() < deadline)),
        Poll::Pending => alarm.poll(deadline, executor.now(), cx).map(|()| None),
    })
    .await
}

#[test]
fn bytes_in_another_ring_arrive_while_the_worker_sleeps_in_the_first() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let executor = executor(MIN_CONNECTIONS);
    let rings = Rc::clone(executor.reactor());
    let waited = async {
        let (connections, mut streams) = connect_all(&rings, &listener, MIN_CONNECTIONS + 1).await;
        assert_eq!(rings.rings.borrow().len(), 2, "the last connection is in another ring");
        let mut last = streams.pop().unwrap();
        let mut receivers: Vec<_> = connections.iter().map(Connection::receiver).collect();
        let (go, wait_for_go) = mpsc::channel::<()>();
        let server = thread::spawn(move || {
            wait_for_go.recv().unwrap();
            last.write_all(b"x").unwrap();
        });
        let mut go = Some(go);
        let received = in_time(&executor, |cx| {
            if let Some(go) = go.take() {
                receivers.iter_mut().for_each(|receiver| receiver.start(cx));
                go.send(()).unwrap();
            }
            receivers.last_mut().unwrap().poll(cx)
        });
        let bytes = received.await.expect("the other ring is checked").unwrap();
        assert_eq!(bytes.as_slice(), b"x");
        server.join().unwrap();
    };
    executor.run(waited).unwrap();
}

/// Another thread wakes the worker by a write to the eventfd, so a read of the eventfd must be pending before the
/// worker sleeps. The test fills the queue with receives that never complete. So the worker sleeps right after it
/// has submitted them.
#[test]
fn a_wake_up_arrives_although_the_queue_was_full_before_the_sleep() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let executor = executor(SUBMISSIONS as usize);
    let rings = Rc::clone(executor.reactor());
    let (send, receive) = mpsc::channel::<Waker>();
    let wakes = Arc::new(AtomicUsize::new(0));
    let other = thread::spawn({
        let wakes = Arc::clone(&wakes);
        move || {
            for waker in receive {
                wakes.fetch_add(1, Ordering::AcqRel);
                waker.wake();
            }
        }
    });
    let waited = async {
        let (connections, _streams) = connect_all(&rings, &listener, SUBMISSIONS as usize).await;
        let mut receivers: Vec<_> = connections.iter().map(Connection::receiver).collect();
        let mut next = 0;
        let woken = in_time(&executor, |cx| {
            let wakes = wakes.load(Ordering::Acquire);
            if wakes == 2 {
                return Poll::Ready(());
            }
            if wakes == next {
                // The first wake-up has completed the pending read of the eventfd. The second one needs a new read.
                if wakes == 1 {
                    receivers.iter_mut().for_each(|receiver| receiver.start(cx));
                }
                send.send(cx.waker().clone()).unwrap();
                next += 1;
            }
            Poll::Pending
        });
        woken.await.expect("the other thread ends the sleep");
        drop(send);
    };
    executor.run(waited).unwrap();
    other.join().unwrap();
}

#[test]
fn cancelled_attempts_do_not_block_later_ones() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let executor = executor(4 * SUBMISSIONS as usize);
    let rings = Rc::clone(executor.reactor());
    let (finished, waiter) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(None::<Waker>)));
    let main = async {
        let count = 3 * SUBMISSIONS as usize;
        let tasks: Vec<_> = (0..count)
            .map(|_| {
                let (rings, finished, waiter) = (Rc::clone(&rings), Rc::clone(&finished), Rc::clone(&waiter));
                executor.spawn(async move {
                    let _connection = connected(&rings, address).await.unwrap();
                    finished.set(finished.get() + 1);
                    waiter.take().into_iter().for_each(Waker::wake);
                })
            })
            .collect();
        // All tasks have begun. Most of them wait, because `MAX_STARTS` attempts have started already.
        yield_now().await;
        let (cancelled, kept) = tasks.split_at(count - 50);
        assert!(cancelled.iter().all(|task| executor.cancel(*task)));
        let ended = in_time(&executor, |cx| {
            if finished.get() == kept.len() {
                return Poll::Ready(());
            }
            waiter.replace(Some(cx.waker().clone()));
            Poll::Pending
        });
        ended.await
    };
    executor.run(main).unwrap().expect("the others connect");
}

#[test]
fn the_end_of_a_worker_cancels_its_pending_receives() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // More than fit into the queue at once, in two rings.
    let executor = executor(2 * SUBMISSIONS as usize);
    let rings = Rc::clone(executor.reactor());
    let started = Rc::new(Cell::new(0));
    let main = async {
        let (connections, streams) = connect_all(&rings, &listener, 3 * SUBMISSIONS as usize).await;
        for connection in connections {
            let started = Rc::clone(&started);
            executor.spawn(async move {
                let (mut receiver, mut is_started) = (connection.receiver(), false);
                let received = poll_fn(|cx| {
                    if !std::mem::replace(&mut is_started, true) {
                        started.set(started.get() + 1);
                    }
                    receiver.poll(cx)
                });
                let _ = received.await;
            });
        }
        while started.get() < streams.len() {
            yield_now().await;
        }
        streams
    };
    // Every connection is closed: a pending receive would keep it open. The rings still exist; dropping them would
    // cancel everything in any case.
    for mut stream in executor.run(main).unwrap() {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
    assert_eq!(rings.rings.borrow().len(), 2);
}

#[test]
fn a_burst_larger_than_the_buffers_is_received_with_few_polls() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let count = 20 * usize::from(BUFFERS.0);
    let executor = executor(count);
    let rings = Rc::clone(executor.reactor());
    let polls = Rc::new(Cell::new(0));
    let all = async {
        let (connections, mut streams) = connect_all(&rings, &listener, count).await;
        // All bytes have arrived when the first receive starts.
        streams.iter_mut().for_each(|stream| stream.write_all(b"x").unwrap());
        for connection in connections {
            let polls = Rc::clone(&polls);
            executor.spawn(async move {
                let mut receiver = connection.receiver();
                let received = poll_fn(|cx| {
                    polls.set(polls.get() + 1);
                    receiver.poll(cx)
                });
                assert_eq!(received.await.unwrap().as_slice(), b"x");
            });
        }
        while !executor.is_empty() {
            yield_now().await;
        }
    };
    executor.run(all).unwrap();
    // If all waiting tasks were woken for each set of free buffers, there would be ten polls per receive.
    assert!(polls.get() <= 6 * count, "{} polls for {count} receives", polls.get());
}

#[test]
fn attempts_beyond_the_queue_wait_for_the_next_system_call() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let executor = executor(4 * MAX_STARTS);
    let rings = Rc::clone(executor.reactor());
    let main = async {
        let mut is_waiting = false;
        let attempts: Vec<_> = (0..MAX_STARTS).map(|_| rings.connect(address).unwrap()).collect();
        let started = in_time(&executor, |cx| {
            if !is_waiting {
                assert!(rings.poll_start(cx).is_ready());
                attempts.iter().for_each(|attempt| assert!(attempt.poll(cx).is_pending()));
                is_waiting = true;
                assert!(rings.poll_start(cx).is_pending(), "the largest number of attempts has started");
                return Poll::Pending;
            }
            rings.poll_start(cx)
        });
        started.await.expect("an attempt may start after the next system call");
    };
    executor.run(main).unwrap();
}
