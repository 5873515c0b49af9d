//! Threads for what may wait for a disk: clients are served in turn, and none has more than its share of the threads.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::io;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

type Task = Box<dyn FnOnce() + Send>;

/// Threads that carry out tasks. Those of one client are begun in the order in which they were put.
pub(crate) struct Pool<C> {
    queue: Arc<Queue<C>>,
    threads: Vec<JoinHandle<()>>,
}

impl<C: Copy + Eq + Hash + Send + 'static> Pool<C> {
    /// Starts so many threads, of which one client has so many at a time.
    pub(crate) fn start(name: &str, threads: usize, of_a_client: usize) -> io::Result<Self> {
        let queue = Arc::new(Queue { tasks: Mutex::default(), changed: Condvar::new(), of_a_client });
        let mut pool = Pool { queue, threads: Vec::new() };
        for _ in 0..threads {
            let queue = pool.queue.clone();
            let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
                while let Some((client, task)) = queue.take() {
                    // A panic has been reported where it happened; the thread goes on for others.
                    let _ = catch_unwind(AssertUnwindSafe(task));
                    queue.finished(client);
                }
            })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Has a task carried out for a client.
    pub(crate) fn put(&self, client: C, task: impl FnOnce() + Send + 'static) {
        self.queue.put(client, Box::new(task));
    }

    /// Nothing of a client's is begun any more.
    pub(crate) fn forget(&self, client: C) {
        self.queue.lock().waiting.remove(&client);
    }

    /// Ends once all that was put is done.
    pub(crate) fn finish(mut self) {
        self.queue.end();
        for thread in std::mem::take(&mut self.threads) {
            // Its panic has been reported where it happened.
            let _ = thread.join();
        }
    }
}

impl<C> Drop for Pool<C> {
    /// What was put and not begun is not done. Nobody waits for what was begun.
    fn drop(&mut self) {
        let mut tasks = self.queue.lock();
        if !tasks.over {
            tasks.waiting.clear();
        }
        tasks.over = true;
        drop(tasks);
        self.queue.changed.notify_all();
    }
}

struct Queue<C> {
    tasks: Mutex<Tasks<C>>,
    changed: Condvar,
    of_a_client: usize,
}

struct Tasks<C> {
    /// Of each client, its tasks and when the first of them was put.
    waiting: HashMap<C, VecDeque<(u64, Task)>>,
    /// How many threads each client has.
    running: HashMap<C, NonZero<usize>>,
    put: u64,
    over: bool,
}

impl<C> Default for Tasks<C> {
    fn default() -> Self {
        Tasks { waiting: HashMap::new(), running: HashMap::new(), put: 0, over: false }
    }
}

impl<C> Queue<C> {
    fn lock(&self) -> MutexGuard<'_, Tasks<C>> {
        // Tasks run without the lock: whatever panicked has left it whole.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }
}

impl<C: Copy + Eq + Hash> Queue<C> {
    fn put(&self, client: C, task: Task) {
        let mut tasks = self.lock();
        tasks.put += 1;
        let at = tasks.put;
        tasks.waiting.entry(client).or_default().push_back((at, task));
        drop(tasks);
        self.changed.notify_one();
    }

    /// The next task, when there is one; `None` at the end.
    fn take(&self) -> Option<(C, Task)> {
        let mut tasks = self.lock();
        loop {
            if let Some(taken) = tasks.take(self.of_a_client) {
                return Some(taken);
            }
            if tasks.over && tasks.waiting.is_empty() {
                return None;
            }
            tasks = self.changed.wait(tasks).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finished(&self, client: C) {
        let mut tasks = self.lock();
        let left = tasks.running.remove(&client).and_then(|n| NonZero::new(n.get() - 1));
        if let Some(left) = left {
            tasks.running.insert(client, left);
        }
        let over = tasks.over;
        drop(tasks);
        if over {
            self.changed.notify_all();
        } else {
            self.changed.notify_one();
        }
    }
}

impl<C: Copy + Eq + Hash> Tasks<C> {
    fn take(&mut self, of_a_client: usize) -> Option<(C, Task)> {
        let may = |client: &C| self.running.get(client).is_none_or(|n| n.get() < of_a_client);
        let clients = self.waiting.iter().filter(|(client, _)| may(client));
        let client = *clients.min_by_key(|(_, tasks)| tasks.front().map(|(at, _)| *at))?.0;
        let tasks = self.waiting.get_mut(&client)?;
        let (_, task) = tasks.pop_front()?;
        if tasks.is_empty() {
            self.waiting.remove(&client);
        }
        self.running.entry(client).and_modify(|n| *n = n.saturating_add(1)).or_insert(NonZero::<usize>::MIN);
        Some((client, task))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// A task that tells its name, and then waits until what is returned is dropped.
    fn stuck(pool: &Pool<u8>, client: u8, told: &Sender<String>, name: &str) -> Sender<()> {
        let (until, dropped) = channel();
        let (told, name) = (told.clone(), name.to_owned());
        pool.put(client, move || {
            told.send(name).unwrap();
            let _ = dropped.recv();
        });
        until
    }

    fn next(told: &Receiver<String>) -> String {
        told.recv_timeout(SOON).unwrap()
    }

    #[test]
    fn a_client_whose_disk_is_slow_leaves_threads_to_others() {
        let pool = Pool::start("test", 3, 2).unwrap();
        let (tell, told) = channel();
        let mut slow: Vec<_> = (0..10).map(|n| stuck(&pool, 1, &tell, &format!("slow {n}"))).collect();
        let mut begun = [next(&told), next(&told)];
        begun.sort();
        assert_eq!(begun, ["slow 0", "slow 1"]);
        for n in 0..5 {
            drop(stuck(&pool, 2, &tell, &format!("other {n}")));
            assert_eq!(next(&told), format!("other {n}"), "though two threads wait for the slow disk");
        }
        assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "no third thread does");
        drop(slow.remove(0));
        assert_eq!(next(&told), "slow 2");
    }

    #[test]
    fn tasks_of_a_client_are_done_in_their_order_and_all_of_them_before_the_end() {
        let pool = Pool::start("test", 4, 1).unwrap();
        let (tell, told) = channel();
        for n in 0..1_000 {
            let tell = tell.clone();
            pool.put(n % 7, move || tell.send(n).unwrap());
        }
        pool.finish();
        drop(tell);
        let mut of_each = [const { Vec::new() }; 7];
        told.iter().for_each(|n| of_each[n % 7].push(n));
        assert_eq!(of_each.iter().map(Vec::len).sum::<usize>(), 1_000);
        assert!(of_each.iter().all(|of_one| of_one.is_sorted()));
    }

    #[test]
    fn a_task_that_panics_takes_no_thread_with_it() {
        let pool = Pool::start("test", 1, 1).unwrap();
        let (tell, told) = channel();
        pool.put(1, || panic!("as it should"));
        drop(stuck(&pool, 1, &tell, "next"));
        assert_eq!(next(&told), "next");
    }

    #[test]
    fn what_is_forgotten_is_not_begun() {
        let pool = Pool::start("test", 1, 1).unwrap();
        let (tell, told) = channel();
        let first = stuck(&pool, 1, &tell, "first");
        assert_eq!(next(&told), "first");
        drop(stuck(&pool, 1, &tell, "forgotten"));
        pool.forget(1);
        drop(stuck(&pool, 2, &tell, "other"));
        drop(first);
        assert_eq!(next(&told), "other");
        pool.finish();
    }
}
