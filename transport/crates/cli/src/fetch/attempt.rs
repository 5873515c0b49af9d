//! One set of connections to all servers, and what is pulled over them until all is there or servers are gone.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proto::lttp::ServerReport;
use udp::{Fetching, Job, JobId, TlsClientConfig, Update};
use wire::control::{Refusal, Run};

use super::plan::{Listing, Object, Plan, Unlisted};
use super::report::Report;
use crate::Failure;

/// Files that one server is asked for at a time.
const JOBS_OF_A_SERVER: usize = 64;
/// Pieces of shared files that one server is asked for at a time: the next is there when one ends.
const PIECES_OF_A_SERVER: usize = 2;
/// How often one server is asked for a file that it cannot give now.
const MOST_TRIES: u32 = 5;
/// How often the report is given a chance to show progress.
const TICK: Duration = Duration::from_millis(100);

/// Connections, and the work on them.
pub(super) struct Attempt {
    pulling: Fetching,
    servers: Vec<Server>,
    queue: VecDeque<Piece>,
    /// Files that have pieces in the queue or running, and how many.
    pending: HashMap<usize, usize>,
    running: HashMap<JobId, (usize, usize)>,
    listings: HashMap<(usize, u16), (Unlisted, Listing)>,
}

#[derive(Default)]
struct Server {
    ready: bool,
    gone: Option<String>,
    jobs: usize,
}

struct Piece {
    file: usize,
    runs: Vec<Run>,
}

impl Attempt {
    pub(super) fn connect(plan: &Plan, tls: Option<&Arc<TlsClientConfig>>) -> Result<Self, Failure> {
        let pulling = Fetching::connect(&plan.servers, tls, plan.config().clone()).map_err(Failure::new)?;
        Ok(Attempt {
            pulling,
            servers: plan.servers.iter().map(|_| Server::default()).collect(),
            queue: VecDeque::new(),
            pending: HashMap::new(),
            running: HashMap::new(),
            listings: HashMap::new(),
        })
    }

    /// Works until all is there or has failed for good, or nothing more can come over these connections; whether
    /// they are all as good as they were.
    pub(super) fn run(
        &mut self,
        plan: &mut Plan,
        report: &mut Report,
        interrupted: &AtomicBool,
    ) -> Result<bool, Failure> {
        // What is measured is measured from where all begin together.
        while report.measures() && self.servers.iter().any(|s| !s.ready && s.gone.is_none()) {
            self.step(plan, report)?;
            if interrupted.load(Ordering::Relaxed) {
                return Ok(false);
            }
        }
        report.round_begins();
        while !self.is_finished(plan) && !interrupted.load(Ordering::Relaxed) {
            self.ask(plan);
            if self.is_stuck(plan) {
                return Ok(false);
            }
            self.step(plan, report)?;
            report.tick(plan, self);
        }
        plan.unlisted.extend(self.listings.drain().map(|(_, (unlisted, _))| unlisted));
        report.round_ends(plan);
        for file in &plan.files {
            if let Err(e) = file.lock().save() {
                report.complain(&format!("{}: {e}", file.path));
            }
        }
        Ok(self.servers.iter().all(|s| s.gone.is_none()))
    }

    /// Nothing is left to do. While a directory is being listed that is not known yet.
    fn is_finished(&self, plan: &Plan) -> bool {
        plan.is_finished() && self.listings.is_empty()
    }

    /// Nothing is under way, and nothing can be.
    fn is_stuck(&self, plan: &Plan) -> bool {
        let alive = |servers: &[usize]| servers.iter().any(|s| self.servers[*s].gone.is_none());
        self.running.is_empty()
            && self.listings.is_empty()
            && !plan.unlisted.iter().any(|u| alive(&u.servers))
            && !plan.files.iter().any(|f| !f.is_over() && alive(&f.servers))
    }

    /// Gives out what is to be done to the servers that have least to do.
    fn ask(&mut self, plan: &mut Plan) {
        for directory in std::mem::take(&mut plan.unlisted) {
            let server = directory.servers.iter().copied().find(|s| self.servers[*s].ready);
            match server.and_then(|s| Some((s, self.pulling.list(s, directory.path.clone())?))) {
                Some(question) => {
                    self.listings.insert(question, (directory, Listing::default()));
                }
                None => plan.unlisted.push(directory),
            }
        }
        for (index, file) in plan.files.iter_mut().enumerate() {
            let idle = !self.pending.contains_key(&index);
            if !(idle || file.stream.is_some()) || file.is_over() {
                continue;
            }
            let pieces = file.pieces(idle);
            if !pieces.is_empty() {
                *self.pending.entry(index).or_default() += pieces.len();
                self.queue.extend(pieces.into_iter().map(|runs| Piece { file: index, runs }));
            }
        }
        for _ in 0..self.queue.len() {
            let Some(piece) = self.queue.pop_front() else { break };
            let file = &plan.files[piece.file];
            let most = if file.servers.len() > 1 { PIECES_OF_A_SERVER } else { JOBS_OF_A_SERVER };
            let free = |s: &&usize| self.servers[**s].gone.is_none() && self.servers[**s].jobs < most;
            let Some(server) =
                file.servers.iter().filter(free).min_by_key(|s| self.servers[**s].jobs).copied()
            else {
                if file.servers.iter().any(|s| self.servers[*s].gone.is_none()) {
                    self.queue.push_back(piece);
                } else {
                    self.settle(piece.file);
                }
                continue;
            };
            let job = self.pulling.start(Job {
                server,
                path: file.path.clone(),
                runs: piece.runs,
                version: file.object.as_ref().map(|o| o.version),
                sink: file.sink(),
            });
            self.running.insert(job, (piece.file, server));
            self.servers[server].jobs += 1;
        }
    }

    fn step(&mut self, plan: &mut Plan, report: &mut Report) -> Result<(), Failure> {
        for update in self.pulling.wait(TICK).map_err(Failure::new)? {
            match update {
                Update::Ready { server } => self.servers[server].ready = true,
                Update::Lost { server, why } => {
                    report.lost(&plan.servers[server], &why);
                    self.servers[server].gone = Some(why);
                    let lost = |(s, _): &(usize, u16)| *s == server;
                    let questions: Vec<_> = self.listings.keys().filter(|q| lost(q)).copied().collect();
                    for question in questions {
                        plan.unlisted.extend(self.listings.remove(&question).map(|(unlisted, _)| unlisted));
                    }
                }
                Update::Began { job, parameters } => {
                    let Some((file, _)) = self.running.get(&job) else { continue };
                    let layout = plan.layout(parameters.size);
                    let file = &mut plan.files[*file];
                    if let Some(layout) = layout.filter(|_| file.object.is_none()) {
                        file.object = Some(Object { layout, version: parameters.version });
                    }
                }
                Update::Block { job, block, bytes } => {
                    let Some((file, _)) = self.running.get(&job) else { continue };
                    let k = plan.files[*file].object.as_ref().map_or(0, |o| o.layout.k(block));
                    report.block(bytes, k);
                }
                Update::Finished { job } => self.end(job),
                Update::Failed { job, refusal, why } => {
                    let Some((file, server)) = self.running.get(&job).copied() else { continue };
                    self.end(job);
                    if self.servers[server].gone.is_none() {
                        self.failed(plan, file, server, refusal, &why);
                    }
                }
                Update::Listing { server, request, entries, omitted, last } => {
                    let Some((_, found)) = self.listings.get_mut(&(server, request)) else { continue };
                    found.entries.extend(entries);
                    found.omitted.extend(omitted);
                    let listed = last.then(|| self.listings.remove(&(server, request))).flatten();
                    if let Some((directory, found)) = listed {
                        plan.listed(&directory, found)?;
                    }
                }
                Update::Unlisted { server, request, why } => {
                    let Some((mut directory, _)) = self.listings.remove(&(server, request)) else { continue };
                    directory.servers.retain(|s| *s != server);
                    if directory.servers.is_empty() {
                        plan.unlistable(directory, format!("{}: {why}", plan.servers[server].name));
                    } else {
                        plan.unlisted.push(directory);
                    }
                }
            }
        }
        let needless = |(_, (file, _)): &(&JobId, &(usize, usize))| plan.files[*file].is_complete();
        for job in self.running.iter().filter(needless).map(|(job, _)| *job).collect::<Vec<_>>() {
            self.pulling.cancel(job);
            self.end(job);
        }
        Ok(())
    }

    fn end(&mut self, job: JobId) {
        if let Some((file, server)) = self.running.remove(&job) {
            self.servers[server].jobs -= 1;
            self.settle(file);
        }
    }

    /// One piece less of a file is pending.
    fn settle(&mut self, file: usize) {
        if let Some(left) = self.pending.get_mut(&file) {
            *left -= 1;
            if *left == 0 {
                self.pending.remove(&file);
            }
        }
    }

    /// A server that is there will not give a file.
    fn failed(&mut self, plan: &mut Plan, file: usize, server: usize, refusal: Option<Refusal>, why: &str) {
        let name = plan.servers[server].name.clone();
        let number = file;
        let file = &mut plan.files[number];
        if let Some(error) = file.stream.as_ref().and_then(|stream| stream.failure()) {
            // No server can do anything about it.
            file.failed = Some(error.to_string());
            return;
        }
        let begun = file.stream.as_ref().is_some_and(|stream| stream.has_begun());
        match refusal {
            // Perhaps the others have it, as it was begun.
            _ if file.servers.len() > 1 => file.servers.retain(|s| *s != server),
            // It has been changed since it was begun: once it is begun anew.
            Some(Refusal::Changed) if !file.changed && !begun => {
                file.changed = true;
                file.object = None;
                self.drop_pieces(number);
                file.lock().discard();
            }
            // That may pass.
            Some(Refusal::Busy | Refusal::Unreadable | Refusal::SymbolCap) if file.tries < MOST_TRIES => {
                file.tries += 1;
            }
            _ => file.failed = Some(format!("{name}: {why}")),
        }
    }

    /// Nothing that is under way, or was to be, of a file is of use any more.
    fn drop_pieces(&mut self, file: usize) {
        let of_it = |(_, (f, _)): &(&JobId, &(usize, usize))| *f == file;
        for job in self.running.iter().filter(of_it).map(|(job, _)| *job).collect::<Vec<_>>() {
            self.pulling.cancel(job);
            self.end(job);
        }
        let queued = self.queue.len();
        self.queue.retain(|piece| piece.file != file);
        for _ in self.queue.len()..queued {
            self.settle(file);
        }
    }

    /// What came of each server.
    pub(super) fn reports(&self) -> impl Iterator<Item = (usize, ServerReport, Option<Duration>)> + '_ {
        (0..self.servers.len()).filter_map(|s| self.pulling.report(s).map(|(report, rtt)| (s, report, rtt)))
    }

    pub(super) fn window_bytes(&self) -> usize {
        self.pulling.window_bytes()
    }
}

/// Measures how long something takes.
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Stopwatch(Instant::now())
    }

    pub(super) fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
