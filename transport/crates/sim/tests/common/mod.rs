//! A client and servers of LTTP around one switch.
#![allow(dead_code)] // Each test program uses a part of it.

use std::time::Duration;

use proto::lttp::{ClientConfig, ServerConfig};
use weir_sim::lttp::{ClientNode, Fetched, Outcome, Secret, ServerNode};
use weir_sim::{Faults, LinkId, Loss, Network, NodeId, Rng, Star, StarConfig, Time};

pub const SECRET: Secret = Some([7; 32]);
pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

pub fn ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// Bytes that follow from a seed.
pub fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..count.div_ceil(8)).flat_map(|_| rng.bits().to_be_bytes()).take(count).collect()
}

pub fn lossy(p: f64) -> Faults {
    Faults { loss: Loss::Independent(p), ..Faults::default() }
}

/// What a test is about.
#[derive(Clone)]
pub struct Bed {
    pub seed: u64,
    pub secret: Secret,
    pub client: ClientConfig,
    pub server: ServerConfig,
    pub star: StarConfig,
    /// Every server has `objects` of these sizes, and is asked for all of them.
    pub sizes: Vec<usize>,
    pub servers: usize,
}

impl Default for Bed {
    /// One server with one object, protected, over 100 Mb/s with a buffer of 64 KB.
    fn default() -> Self {
        Bed {
            seed: 1,
            secret: SECRET,
            client: ClientConfig::default(),
            server: ServerConfig::default(),
            star: StarConfig::default(),
            sizes: vec![300_000],
            servers: 1,
        }
    }
}

pub struct Run {
    pub network: Network,
    pub client: NodeId,
    pub servers: Vec<NodeId>,
    /// Of each server: to the switch, and back.
    pub links: Vec<(LinkId, LinkId)>,
    pub port: LinkId,
    /// What each fetch has to bring.
    pub expected: Vec<Vec<u8>>,
}

impl Bed {
    pub fn build(&self) -> Run {
        let mut network = Network::new(self.seed);
        let star = Star::new(&mut network, self.star);
        let servers: Vec<NodeId> = (0..self.servers)
            .map(|server| {
                let config = ServerConfig { seed: self.seed, ..self.server.clone() };
                let mut node = ServerNode::new(config, self.secret);
                for (number, size) in self.sizes.iter().enumerate() {
                    node.put(&path(number), bytes(object_seed(server, number), *size));
                }
                network.add(node)
            })
            .collect();
        let mut client = ClientNode::new(self.client.clone(), self.secret, &servers);
        let mut expected = Vec::new();
        for server in 0..self.servers {
            for (number, size) in self.sizes.iter().enumerate() {
                client.fetch(server, &path(number), Vec::new(), None);
                expected.push(bytes(object_seed(server, number), *size));
            }
        }
        let client = network.add(client);
        let links = servers.iter().map(|server| star.attach(&mut network, *server, client)).collect();
        Run { network, client, servers, links, port: star.port, expected }
    }
}

pub fn path(number: usize) -> String {
    format!("object/{number}")
}

fn object_seed(server: usize, number: usize) -> u64 {
    (server * 1000 + number) as u64
}

impl Run {
    pub fn client(&self) -> &ClientNode {
        self.network.node(self.client)
    }

    pub fn server(&self, server: usize) -> &ServerNode {
        self.network.node(self.servers[server])
    }

    /// Faults on the way of data, of every server alike.
    pub fn there(&mut self, faults: impl Fn() -> Faults) -> &mut Self {
        for (there, _) in self.links.clone() {
            self.network.link_mut(there).faults = faults();
        }
        self
    }

    /// Faults on the way of feedback.
    pub fn back(&mut self, faults: impl Fn() -> Faults) -> &mut Self {
        for (_, back) in self.links.clone() {
            self.network.link_mut(back).faults = faults();
        }
        self
    }

    /// Runs until nothing is under way; when that was.
    pub fn finish(&mut self, patience: Duration) -> Time {
        let client = self.client;
        let deadline = self.network.now() + patience;
        let done = self.network.run_until(deadline, |n| n.node::<ClientNode>(client).is_done());
        let state: Vec<_> = self.client().all().iter().map(Fetched::outcome).collect();
        assert!(done, "not done by {deadline:?}: {state:?}");
        self.network.now()
    }

    /// Runs until all is there, every byte of it.
    pub fn deliver(&mut self, patience: Duration) -> Time {
        let end = self.finish(patience);
        for (number, expected) in self.expected.iter().enumerate() {
            let fetched = self.client().fetched(number);
            let lost: Vec<_> = (0..self.servers.len()).filter_map(|s| self.client().lost(s)).collect();
            assert!(matches!(fetched.outcome(), Outcome::Complete(_)), "{:?} {lost:?}", fetched.outcome());
            assert!(fetched.bytes() == expected, "fetch {number} brought other bytes");
        }
        end
    }

    /// A while later every server knows that it is done.
    pub fn settled(&mut self) -> &mut Self {
        self.network.run_for(SECOND);
        let requests = (self.expected.len() / self.servers.len()) as u32;
        for server in 0..self.servers.len() {
            let served = self.server(server).served(self.client);
            assert_eq!((served.complete, served.abandoned), (requests, 0), "{served:?}");
        }
        self
    }
}
