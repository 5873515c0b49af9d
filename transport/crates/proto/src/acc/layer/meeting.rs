//! Who is a peer: probes and answers, the keys that come of them, and the end.

use std::time::Duration;

use wire::acc::{CODE_BYTES, HELLO_BYTES, Hello, MAX_SESSION};

use super::super::outbox::Outbox;
use super::super::packet::Pair;
use super::super::session::Session;
use super::peer::{ASK_AGAIN, Asked, Link, Peer, SILENCE, SWEEP, way};
use super::{Arrival, Event, IDLE, Layer, Role, Why};
use crate::Time;
use crate::ecn::Codepoint;

/// A host is asked so many times.
const TRIES: u32 = 3;
/// Keys are used for so long.
const REKEY: Duration = Duration::from_secs(3600);
/// Sessions of a peer: packets under older keys are still on their way.
const MOST_SESSIONS: usize = 3;

/// A probe or an answer, not verified.
pub(super) struct Greeting<'a> {
    pub(super) hello: Hello,
    pub(super) covered: &'a [u8],
    pub(super) code: [u8; CODE_BYTES],
}

impl Layer {
    pub(super) fn has_room(&mut self) -> bool {
        if self.peers.len() >= self.config.max_peers {
            // Those who are none make room for those who may be.
            let refused = self.peers.values().find(|peer| peer.refused_until.is_some() && !peer.fixed);
            let Some(pair) = refused.map(|peer| peer.link.pair) else { return false };
            self.forget(&pair);
        }
        true
    }

    /// Knows nothing more of a host that is no peer.
    fn forget(&mut self, pair: &Pair) {
        if let Some(peer) = self.peers.remove(pair) {
            for session in peer.link.sessions {
                self.sessions.remove(&session.ours);
            }
        }
        self.agenda.remove((*pair, Role::Peer));
    }

    fn new_session(&mut self, pair: Pair) -> u32 {
        loop {
            self.next_session = (self.next_session + 1) & MAX_SESSION;
            if let std::collections::hash_map::Entry::Vacant(entry) = self.sessions.entry(self.next_session) {
                entry.insert(pair);
                return self.next_session;
            }
        }
    }

    pub(super) fn ask(&mut self, now: Time, pair: &Pair, out: &mut Outbox) {
        let session = self.new_session(*pair);
        let hello = Hello { session, answers: None, nonce: self.nonces.next() };
        let Some(peer) = self.peers.get_mut(pair) else { return };
        peer.refused_until = None;
        peer.asked = Some(Asked { hello, since: now, at: now, tries: 1 });
        self.say(pair, self.config.port, &hello, None, out);
        self.rearm(pair);
    }

    /// Sends a probe, or an answer to one.
    fn say(&self, pair: &Pair, port: u16, hello: &Hello, asked: Option<&Hello>, out: &mut Outbox) {
        out.write(way(pair, port), Codepoint::NotEct, |bytes| {
            let begin = bytes.len();
            hello.emit(bytes);
            let code = self.key.code(pair, &bytes[begin..], asked.map(|asked| &asked.nonce[..]));
            bytes.extend(code);
            debug_assert_eq!(bytes.len() - begin, HELLO_BYTES);
        });
    }

    fn rearm(&mut self, pair: &Pair) {
        if let Some(peer) = self.peers.get_mut(pair) {
            let due = peer.due();
            peer.armed = due;
            self.agenda.set((*pair, Role::Peer), due);
        }
    }

    pub(super) fn on_probe(
        &mut self,
        now: Time,
        arrival: Arrival,
        greeting: &Greeting<'_>,
        out: &mut Outbox,
    ) -> Option<()> {
        let (Arrival { pair, port, .. }, hello) = (arrival, greeting.hello);
        self.key.verify(&pair, greeting.covered, None, &greeting.code).ok()?;
        if !self.peers.contains_key(&pair) && !self.has_room() {
            return None;
        }
        let (nonces, config) = (&mut self.nonces, &self.config);
        let peer =
            self.peers.entry(pair).or_insert_with(|| Peer::new(pair, nonces.next_number(), config, now));
        let before = peer.answered.filter(|(asked, _)| *asked == hello).map(|(_, answer)| answer);
        let answer = match before {
            Some(answer) => answer,
            None => {
                // If nothing follows, it is none.
                let until = now + peer.refusal();
                peer.refused_until = (!peer.up && peer.asked.is_none()).then_some(until);
                let session = self.new_session(pair);
                let answer =
                    Hello { session: hello.session, answers: Some(session), nonce: self.nonces.next() };
                let keys = self.key.session(&pair, port, &hello, &answer, false, session);
                self.add_session(&pair, keys);
                self.peers.get_mut(&pair)?.answered = Some((hello, answer));
                answer
            }
        };
        self.say(&pair, port, &answer, Some(&hello), out);
        self.rearm(&pair);
        Some(())
    }

    pub(super) fn on_answer(
        &mut self,
        now: Time,
        arrival: Arrival,
        greeting: &Greeting<'_>,
        out: &mut Outbox,
    ) -> Option<()> {
        let (Arrival { pair, port, .. }, hello) = (arrival, greeting.hello);
        let peer = self.peers.get_mut(&pair)?;
        let Some(asked) = peer.asked.take_if(|asked| asked.hello.session == hello.session) else {
            // It is late, or the second one, as the probe was sent again.
            let probe = peer.was_asked.filter(|probe| probe.session == hello.session)?;
            return self.key.verify(&pair, greeting.covered, Some(&probe.nonce), &greeting.code).ok();
        };
        if self.key.verify(&pair, greeting.covered, Some(&asked.hello.nonce), &greeting.code).is_err() {
            peer.asked = Some(asked);
            return None;
        }
        peer.was_asked = Some(asked.hello);
        if asked.tries == 1 {
            // Not a sample of the scheduler's: no packet of TCP is answered as fast.
            peer.on_rtt(now.since(asked.at));
        }
        let keys = self.key.session(&pair, port, &asked.hello, &hello, true, asked.hello.session);
        self.add_session(&pair, keys);
        self.confirm(now, pair, asked.hello.session);
        // The other one sends under these keys only when it has seen them used.
        self.peers.get_mut(&pair)?.link.write_empty(None, out);
        self.rearm(&pair);
        Some(())
    }

    fn add_session(&mut self, pair: &Pair, session: Session) {
        let Some(peer) = self.peers.get_mut(pair) else { return };
        let Link { sessions, sending, .. } = &mut peer.link;
        sessions.push(session);
        while sessions.len() > MOST_SESSIONS {
            let unused = sessions.iter().position(|one| Some(one.ours) != *sending);
            let gone = sessions.remove(unused.unwrap_or(0));
            self.sessions.remove(&gone.ours);
        }
    }

    /// The peer has the keys of this session, too.
    fn confirm(&mut self, now: Time, pair: Pair, session: u32) {
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        let Link { sessions, sending, .. } = &mut peer.link;
        let at = |ours: Option<u32>| sessions.iter().position(|one| Some(one.ours) == ours);
        // Whichever is newer.
        if at(Some(session)) > at(*sending) {
            *sending = Some(session);
            peer.rekey = now + REKEY;
        }
        peer.unheard = None;
        if !peer.up {
            peer.up = true;
            peer.refused_until = None;
            self.events.push_back(Event::Up(pair));
        }
    }

    pub(super) fn heard(&mut self, now: Time, pair: Pair, session: u32) {
        let Some(peer) = self.peers.get_mut(&pair) else { return };
        (peer.heard, peer.unheard) = (now, None);
        if !peer.up || peer.link.sending != Some(session) {
            self.confirm(now, pair, session);
        }
    }

    /// A host is no peer any more.
    pub(super) fn refuse(&mut self, now: Time, pair: &Pair, why: Why) {
        let Some(peer) = self.peers.get_mut(pair) else { return };
        for flow in peer.outgoing.keys().copied().collect::<Vec<_>>() {
            peer.remove_outgoing(flow);
            self.agenda.remove((*pair, Role::Outgoing(flow)));
        }
        let held = peer.held_bytes;
        for flow in peer.incoming.keys().copied().collect::<Vec<_>>() {
            // What waits in it is lost with its peer; TCP sends it again.
            peer.remove_incoming(flow);
            self.agenda.remove((*pair, Role::Incoming(flow)));
        }
        self.held_bytes -= held - peer.held_bytes;
        let asked = peer.asked.take().map(|asked| asked.hello);
        peer.was_asked = asked.or(peer.was_asked);
        for session in
            peer.link.sessions.drain(..).map(|session| session.ours).chain(asked.map(|hello| hello.session))
        {
            self.sessions.remove(&session);
        }
        (peer.link.sending, peer.answered, peer.unheard) = (None, None, None);
        peer.refused_until = Some(now + peer.refusal());
        if std::mem::take(&mut peer.up) {
            self.events.push_back(Event::Down(*pair, why));
        }
        self.rearm(pair);
    }

    pub(super) fn handle_peer(&mut self, now: Time, pair: &Pair, out: &mut Outbox) {
        let Some(peer) = self.peers.get_mut(pair) else { return };
        peer.armed = None;
        if let Some(asked) = &mut peer.asked {
            if asked.at + ASK_AGAIN * asked.tries <= now {
                if asked.tries >= TRIES && peer.up && peer.heard > asked.since {
                    // It is there, and only its answers are lost.
                    let hello = asked.hello;
                    (peer.asked, peer.was_asked, peer.rekey) = (None, Some(hello), now + SWEEP);
                    self.sessions.remove(&hello.session);
                    return self.rearm(pair);
                }
                if asked.tries >= TRIES {
                    return self.refuse(now, pair, Why::Silent);
                }
                asked.tries += 1;
                asked.at = now;
                let hello = asked.hello;
                self.say(pair, self.config.port, &hello, None, out);
            }
        } else if peer.refused_until.is_some_and(|until| until <= now) {
            if peer.fixed {
                return self.ask(now, pair, out);
            }
            return self.forget(pair);
        } else if peer.unheard.is_some_and(|since| since + SILENCE <= now) || peer.up && peer.rekey <= now {
            return self.ask(now, pair, out);
        }
        if self.peers.get(pair).is_some_and(|peer| peer.swept + SWEEP <= now) {
            self.sweep(now, pair, IDLE);
        }
        self.rearm(pair);
    }
}
