//! [`JoinQueue`]: a queue that counts its unfinished items.
//!
//! Invariant: every `put` adds one to the count, every `done` subtracts one, and `join` ends when the count is zero. So
//! a worker detects the end of its work by a count, not by a timer. An empty queue is not enough, because an item in
//! progress may still put others.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// A FIFO queue whose `join` waits until every item that was put is done.
pub struct JoinQueue<T> {
    state: RefCell<State<T>>,
}

struct State<T> {
    items: VecDeque<T>,
    unfinished: usize,
    /// Tasks that wait in `get`.
    getters: VecDeque<Waker>,
    /// Tasks that wait in `join`.
    joiners: Vec<Waker>,
}

impl<T> Default for JoinQueue<T> {
    fn default() -> Self {
        let state = State { items: VecDeque::new(), unfinished: 0, getters: VecDeque::new(), joiners: Vec::new() };
        Self { state: RefCell::new(state) }
    }
}

impl<T> JoinQueue<T> {
    pub fn put(&self, item: T) {
        let mut state = self.state.borrow_mut();
        state.items.push_back(item);
        state.unfinished += 1;
        let getter = state.getters.pop_front();
        drop(state);
        if let Some(getter) = getter {
            getter.wake();
        }
    }

    /// Counts an item as unfinished without queueing it.
    pub fn add_unfinished(&self) {
        self.state.borrow_mut().unfinished += 1;
    }

    /// The next item, once there is one. It must be followed by [`done`](Self::done).
    pub async fn get(&self) -> T {
        poll_fn(|cx| self.poll_get(cx)).await
    }

    fn poll_get(&self, cx: &Context<'_>) -> Poll<T> {
        let mut state = self.state.borrow_mut();
        match state.items.pop_front() {
            Some(item) => {
                // A getter that was woken and then cancelled does not take its item. So if items are left, wake
                // another.
                let next = if state.items.is_empty() { None } else { state.getters.pop_front() };
                drop(state);
                if let Some(next) = next {
                    next.wake();
                }
                Poll::Ready(item)
            }
            None => {
                if !state.getters.iter().any(|getter| getter.will_wake(cx.waker())) {
                    state.getters.push_back(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    // anchor: queue-done
    /// Counts one item as finished. Call it after the puts that the item causes, or `join` may end too early.
    pub fn done(&self) {
        let mut state = self.state.borrow_mut();
        debug_assert!(state.unfinished > 0, "more items were finished than put");
        state.unfinished = state.unfinished.saturating_sub(1);
        let joiners = if state.unfinished == 0 { std::mem::take(&mut state.joiners) } else { Vec::new() };
        drop(state);
        for joiner in joiners {
            joiner.wake();
        }
    }
    // end: queue-done

    // anchor: queue-join
    /// Ends when every item is finished; at once if there are none.
    pub async fn join(&self) {
        poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if state.unfinished == 0 {
                return Poll::Ready(());
            }
            state.joiners.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
    // end: queue-join

    pub fn unfinished(&self) -> usize {
        self.state.borrow().unfinished
    }
}
