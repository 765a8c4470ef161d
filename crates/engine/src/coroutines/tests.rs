//! Tests of the executor and the reactor of the `coroutines` engine.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::mpsc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use super::executor::{Executor, SIZE_OF_TASK, TaskEvent, yield_now};
use super::reactor::Socket;
use crate::Clock;

fn executor() -> Rc<Executor> {
    Executor::new(Clock::start()).unwrap()
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    near.set_nonblocking(true).unwrap();
    (near, listener.accept().unwrap().0)
}

/// Waits until no task is left.
async fn all_finished(executor: &Executor) {
    while !executor.is_empty() {
        yield_now().await;
    }
}

/// Sets the flag when it is dropped.
struct DropFlag(Rc<Cell<bool>>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[test]
fn the_run_ends_with_the_value_of_main() {
    assert_eq!(executor().run(async { 6 * 7 }).unwrap(), 42);
}

#[test]
fn tasks_alternate_at_every_yield() {
    let executor = executor();
    let log = Rc::new(RefCell::new(Vec::new()));
    for name in ["a", "b"] {
        // `Rc` is not `Send`: these futures never leave their thread.
        let log = Rc::clone(&log);
        executor.spawn(async move {
            for step in 0..3 {
                log.borrow_mut().push(format!("{name}{step}"));
                yield_now().await;
            }
        });
    }
    executor.run(all_finished(&executor)).unwrap();
    assert_eq!(log.borrow().join(" "), "a0 b0 a1 b1 a2 b2");
}

#[test]
fn sleeping_tasks_wake_in_the_order_of_their_alarms() {
    let executor = executor();
    let log = Rc::new(RefCell::new(Vec::new()));
    // All times are relative to one instant, so the order holds however long the thread is delayed.
    let start = executor.now();
    for millis in [30, 10, 20] {
        let (log, handle) = (Rc::clone(&log), Rc::clone(&executor));
        executor.spawn(async move {
            handle.sleep_until(start + Duration::from_millis(millis)).await;
            log.borrow_mut().push(millis);
        });
    }
    let handle = Rc::clone(&executor);
    executor.run(async move { handle.sleep_until(start + Duration::from_millis(40)).await }).unwrap();
    assert_eq!(*log.borrow(), [10, 20, 30]);
    assert!(executor.now() >= start + Duration::from_millis(40));
}

#[test]
fn a_cancelled_task_drops_its_values_and_its_wakers_have_no_effect() {
    let executor = executor();
    let dropped = Rc::new(Cell::new(false));
    let flag = DropFlag(Rc::clone(&dropped));
    let stored_waker: Rc<RefCell<Option<Waker>>> = Rc::default();
    let store = Rc::clone(&stored_waker);
    let id = executor.spawn(async move {
        let _flag = flag;
        poll_fn(|cx| {
            *store.borrow_mut() = Some(cx.waker().clone());
            Poll::<()>::Pending
        })
        .await;
    });
    executor.run(yield_now()).unwrap_or_default();
    // The run above ended with its main future, and cancelled the task.
    assert!(dropped.get());
    assert!(!executor.cancel(id));
    // Another task gets the same index in the slab. The old waker must not wake it.
    let polls = Rc::new(Cell::new(0));
    let count = Rc::clone(&polls);
    executor.spawn(async move {
        poll_fn(|_| {
            count.set(count.get() + 1);
            Poll::<()>::Pending
        })
        .await;
    });
    let waker = stored_waker.borrow_mut().take().unwrap();
    executor
        .run(async {
            yield_now().await;
            waker.wake();
            yield_now().await;
            yield_now().await;
        })
        .unwrap();
    assert_eq!(polls.get(), 1);
}

#[test]
fn a_task_can_cancel_another_and_itself() {
    let executor = executor();
    let dropped = Rc::new(Cell::new(false));
    let flag = DropFlag(Rc::clone(&dropped));
    let victim = executor.spawn(async move {
        let _flag = flag;
        pending::<()>().await;
    });
    let handle = Rc::clone(&executor);
    executor.spawn(async move {
        assert!(handle.cancel(victim));
        assert!(handle.cancel(handle.current()));
        yield_now().await;
        unreachable!("a cancelled task is not polled again");
    });
    let handle = Rc::clone(&executor);
    executor
        .run(async move {
            while !handle.is_empty() {
                yield_now().await;
            }
        })
        .unwrap();
    assert!(dropped.get());
}

#[test]
fn a_task_that_is_woken_many_times_runs_once() {
    let executor = executor();
    let polls = Rc::new(Cell::new(0));
    let (count, stored_waker) = (Rc::clone(&polls), Rc::new(RefCell::new(None::<Waker>)));
    let store = Rc::clone(&stored_waker);
    executor.spawn(async move {
        poll_fn(|cx| {
            count.set(count.get() + 1);
            *store.borrow_mut() = Some(cx.waker().clone());
            Poll::<()>::Pending
        })
        .await;
    });
    executor
        .run(async {
            yield_now().await;
            for _ in 0..10 {
                stored_waker.borrow().as_ref().unwrap().wake_by_ref();
            }
            yield_now().await;
            yield_now().await;
        })
        .unwrap();
    assert_eq!(polls.get(), 2);
}

#[test]
fn another_thread_can_wake_a_sleeping_executor() {
    let executor = executor();
    let (sender, receiver) = mpsc::channel::<Waker>();
    let other = thread::spawn(move || receiver.recv().unwrap().wake());
    let mut sent = false;
    executor
        .run(poll_fn(|cx| {
            if sent {
                return Poll::Ready(());
            }
            sent = true;
            sender.send(cx.waker().clone()).unwrap();
            Poll::Pending
        }))
        .unwrap();
    other.join().unwrap();
}

#[test]
fn a_socket_is_awaited_until_bytes_arrive() {
    let executor = executor();
    let (near, mut far) = pair();
    let socket = Socket::new(near, executor.reactor());
    let handle = Rc::clone(&executor);
    executor.spawn(async move {
        handle.sleep(Duration::from_millis(10)).await;
        far.write_all(b"hello").unwrap();
        pending::<()>().await;
    });
    let text = executor
        .run(async {
            let mut bytes = [0; 16];
            loop {
                match socket.try_io(|mut stream| stream.read(&mut bytes)) {
                    Ok(count) => return String::from_utf8_lossy(&bytes[..count]).into_owned(),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => socket.readable().await.unwrap(),
                    Err(error) => panic!("{error}"),
                }
            }
        })
        .unwrap();
    assert_eq!(text, "hello");
}

#[test]
fn unawaited_bytes_do_not_keep_the_thread_busy() {
    let executor = executor();
    let (near, mut far) = pair();
    let socket = Socket::new(near, executor.reactor());
    let sleeps = Rc::new(Cell::new(0));
    let count = Rc::clone(&sleeps);
    executor.observe(move |event| count.set(count.get() + u32::from(event == TaskEvent::Sleeps)));
    let handle = Rc::clone(&executor);
    executor
        .run(async move {
            far.write_all(b"x").unwrap();
            socket.readable().await.unwrap();
            // The byte stays unread, and no coroutine awaits the socket any more.
            handle.sleep(Duration::from_millis(30)).await;
            // The byte is still reported when a coroutine waits again.
            socket.readable().await.unwrap();
        })
        .unwrap();
    assert!(sleeps.get() < 10, "the thread slept {} times", sleeps.get());
}

#[test]
fn a_mark_survives_later_awaits() {
    let executor = executor();
    let waits = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&waits);
    executor.observe(move |event| {
        if let TaskEvent::Waits(_, mark) = event {
            log.borrow_mut().push(mark);
        }
    });
    let handle = Rc::clone(&executor);
    let error = Rc::new(RefCell::new(String::new()));
    let reported = Rc::clone(&error);
    executor.spawn(async move {
        handle.set_mark("connecting");
        yield_now().await;
        handle.set_mark("reading");
        yield_now().await;
        yield_now().await;
        *reported.borrow_mut() = format!("reset while {}", handle.mark());
    });
    let handle = Rc::clone(&executor);
    executor
        .run(async move {
            handle.set_mark("main");
            all_finished(&handle).await;
        })
        .unwrap();
    assert_eq!(*error.borrow(), "reset while reading");
    waits.borrow_mut().retain(|mark| *mark != "main");
    assert_eq!(*waits.borrow(), ["connecting", "reading", "reading"]);
}

#[test]
fn the_observer_sees_one_end_of_each_task() {
    let executor = executor();
    let ends = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&ends);
    executor.observe(move |event| {
        if let TaskEvent::Finished(_) | TaskEvent::Cancelled(_) = event {
            log.borrow_mut().push(event);
        }
    });
    let finished = executor.spawn(async {});
    let handle = Rc::clone(&executor);
    let cancels_itself = executor.spawn(async move {
        handle.cancel(handle.current());
    });
    let handle = Rc::clone(&executor);
    let cancels_itself_and_waits = executor.spawn(async move {
        handle.cancel(handle.current());
        std::future::pending::<()>().await;
    });
    let (first, second) = (executor.spawn(std::future::pending()), executor.spawn(std::future::pending()));
    executor
        .run(async {
            yield_now().await;
            yield_now().await;
        })
        .unwrap();
    assert_eq!(
        *ends.borrow(),
        [
            TaskEvent::Finished(finished),
            TaskEvent::Cancelled(cancels_itself),
            TaskEvent::Cancelled(cancels_itself_and_waits),
            TaskEvent::Cancelled(first),
            TaskEvent::Cancelled(second),
        ]
    );
}

#[test]
fn a_waiting_task_is_small() {
    const { assert!(SIZE_OF_TASK <= 64) };
    let executor = executor();
    let sleeping = async move { executor.sleep(Duration::from_secs(1)).await };
    assert!(size_of_val(&sleeping) <= 128, "{}", size_of_val(&sleeping));
    // The next larger size class of the allocator is 224 bytes.
    assert!(future_size(super::serve) <= 192, "{} bytes", future_size(super::serve));
}

fn future_size<A, B, F: Future>(_: impl FnOnce(A, B) -> F) -> usize {
    size_of::<F>()
}
