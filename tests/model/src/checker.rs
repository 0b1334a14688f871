//! The checker: breadth-first, exact, and exhaustive. It keeps every state, so that it can also ask what can still be
//! reached from each of them, which a search that only looks ahead cannot.

use std::fmt::{self, Display, Write as _};
use std::hash::{Hash, Hasher};

/// What kind of thing happens in a step. What must still be reachable must be so without the help of some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The system goes on by itself.
    Plain,
    /// Time passes: a wait ends, a plan expires.
    Time,
    /// Something breaks, is lost, is repeated, or is done by somebody hostile.
    Fault,
    /// A person asks for something.
    Person,
}

impl Class {
    const fn bit(self) -> u32 {
        match self {
            Self::Plain => 0,
            Self::Time => 1,
            Self::Fault => 2,
            Self::Person => 3,
        }
    }
}

/// One step: whose, and what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    /// Who takes it.
    pub who: &'static str,
    /// Of which run, from 0.
    pub run: u8,
    /// What is done, in the code's words.
    pub what: &'static str,
    /// Its kind.
    pub class: Class,
}

impl Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {}: {}: {}", self.run, self.who, self.what)
    }
}

/// Something that must hold in each state or over each step.
pub trait Model {
    /// A state; small, for millions are kept.
    type State: Clone + Eq + Hash;

    /// Where it begins.
    fn start(&self) -> Self::State;

    /// All steps that may be taken in `state`, and where each leads.
    fn steps(&self, state: &Self::State, out: &mut Vec<(Action, Self::State)>);

    /// The name of a property that the step from `from` to `to` breaks.
    fn broken_by(&self, from: &Self::State, to: &Self::State) -> Option<&'static str>;

    /// What must stay possible: a name, where it is asked for, what counts as reached, and which steps may lead there.
    fn possibilities(&self) -> Vec<Possibility<Self::State>>;

    /// A state in one line.
    fn show(&self, state: &Self::State) -> String;
}

/// Something that must stay possible, from each state that `asked` names.
pub struct Possibility<S> {
    /// Its name.
    pub name: &'static str,
    /// Where it is asked for.
    pub asked: fn(&S) -> bool,
    /// What counts as reached.
    pub reached: fn(&S) -> bool,
    /// By which steps.
    pub by: &'static [Class],
}

/// What a search found.
#[derive(Debug)]
pub struct Report {
    /// How many states there are.
    pub states: usize,
    /// How many steps lead from one to another.
    pub steps: usize,
    /// How many steps the longest of all shortest ways has.
    pub depth: usize,
    /// The first property that is broken, with the way there.
    pub broken: Option<Broken>,
}

/// A property that does not hold.
#[derive(Debug)]
pub struct Broken {
    /// Its name.
    pub property: &'static str,
    /// The shortest way there, one step a line.
    pub trace: String,
}

impl Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {}\n{}", self.property, self.trace)
    }
}

/// A hash that is quick over many small fields.
struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(byte.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }
}

/// All states found so far, each once: an open-addressed table of places in one vector.
struct Seen<S> {
    states: Vec<S>,
    parents: Vec<(u32, Action)>,
    slots: Vec<u32>,
}

const EMPTY: u32 = u32::MAX;

impl<S: Eq + Hash> Seen<S> {
    fn new() -> Self {
        Self { states: Vec::new(), parents: Vec::new(), slots: vec![EMPTY; 1 << 16] }
    }

    fn hash(state: &S) -> usize {
        let mut hasher = Quick(0);
        state.hash(&mut hasher);
        // Only a place to begin looking: the states themselves are compared.
        usize::try_from(hasher.finish() >> 20).unwrap_or(0)
    }

    /// The place of a state, and whether it is new.
    fn insert(&mut self, state: S, parent: (u32, Action)) -> (u32, bool) {
        if self.states.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = Self::hash(&state) & mask;
        loop {
            let there = self.slots[at];
            if there == EMPTY {
                let place = u32::try_from(self.states.len()).unwrap_or(EMPTY);
                self.slots[at] = place;
                self.states.push(state);
                self.parents.push(parent);
                return (place, true);
            }
            if self.states[there as usize] == state {
                return (there, false);
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        let mut slots = vec![EMPTY; size];
        for (place, state) in (0u32..).zip(&self.states) {
            let mut at = Self::hash(state) & (size - 1);
            while slots[at] != EMPTY {
                at = (at + 1) & (size - 1);
            }
            slots[at] = place;
        }
        self.slots = slots;
    }
}

/// Explores every state of `model` that can be reached, and checks every property.
///
/// Not more than `limit` states: a search that does not end is a mistake in the bounds, and is told as one.
pub fn check<M: Model>(model: &M, limit: usize) -> Report {
    let root = Action { who: "", run: 0, what: "", class: Class::Plain };
    let mut seen = Seen::new();
    seen.insert(model.start(), (EMPTY, root));
    let mut edges: Vec<u32> = Vec::new();
    let mut ends: Vec<usize> = Vec::new();
    let mut out = Vec::new();
    let mut next = 0;
    while next < seen.states.len() {
        let state = seen.states[next].clone();
        let from = u32::try_from(next).unwrap_or(EMPTY);
        model.steps(&state, &mut out);
        for (action, to) in out.drain(..) {
            if to == state {
                continue;
            }
            if let Some(property) = model.broken_by(&state, &to) {
                let mut trace = way(model, &seen, next);
                let _ = writeln!(trace, "  {action}\n      {}", model.show(&to));
                return Report {
                    states: seen.states.len(),
                    steps: edges.len(),
                    depth: depth(&seen, next) + 1,
                    broken: Some(Broken { property, trace }),
                };
            }
            let (place, _) = seen.insert(to, (from, action));
            edges.push(place << 2 | action.class.bit());
        }
        ends.push(edges.len());
        next += 1;
        if seen.states.len() > limit {
            let trace = way(model, &seen, next);
            let broken = Some(Broken { property: "the search ends within its limit", trace });
            return Report { states: seen.states.len(), steps: edges.len(), depth: 0, broken };
        }
    }
    let broken = model.possibilities().iter().find_map(|wanted| impossible(model, &seen, &edges, &ends, wanted));
    Report { states: seen.states.len(), steps: edges.len(), depth: depth(&seen, next - 1), broken }
}

/// Looks for a state from which something cannot be reached any more.
fn impossible<M: Model>(
    model: &M,
    seen: &Seen<M::State>,
    edges: &[u32],
    ends: &[usize],
    wanted: &Possibility<M::State>,
) -> Option<Broken> {
    let allowed = wanted.by.iter().fold(0u32, |bits, class| bits | 1 << class.bit());
    let mut good: Vec<bool> = seen.states.iter().map(wanted.reached).collect();
    loop {
        let mut changed = false;
        for place in (0..good.len()).rev() {
            if good[place] {
                continue;
            }
            let begin = if place == 0 { 0 } else { ends[place - 1] };
            let leads = |edge: &u32| allowed & (1 << (edge & 3)) != 0 && good[(edge >> 2) as usize];
            if edges[begin..ends[place]].iter().any(leads) {
                good[place] = true;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let stuck = (0..good.len()).find(|place| !good[*place] && (wanted.asked)(&seen.states[*place]))?;
    Some(Broken { property: wanted.name, trace: way(model, seen, stuck) })
}

fn depth<S>(seen: &Seen<S>, mut place: usize) -> usize {
    let mut depth = 0;
    while seen.parents[place].0 != EMPTY {
        place = seen.parents[place].0 as usize;
        depth += 1;
    }
    depth
}

/// The shortest way to a state.
fn way<M: Model>(model: &M, seen: &Seen<M::State>, mut place: usize) -> String {
    let mut places = Vec::new();
    while place < seen.parents.len() && seen.parents[place].0 != EMPTY {
        places.push(place);
        place = seen.parents[place].0 as usize;
    }
    let mut text = String::new();
    for place in places.into_iter().rev() {
        let _ = writeln!(text, "  {}\n      {}", seen.parents[place].1, model.show(&seen.states[place]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts up to `top`, back to nothing if it may, and breaks at `bad`.
    struct Counter {
        top: u8,
        bad: u8,
        back: Class,
    }

    impl Model for Counter {
        type State = u8;

        fn start(&self) -> u8 {
            0
        }

        fn steps(&self, state: &u8, out: &mut Vec<(Action, u8)>) {
            let action = |what, class| Action { who: "counter", run: 0, what, class };
            for up in [1, 2].into_iter().filter(|up| state + up <= self.top) {
                out.push((action("up", Class::Plain), state + up));
            }
            if *state == self.top {
                out.push((action("back", self.back), 0));
            }
        }

        fn broken_by(&self, _: &u8, to: &u8) -> Option<&'static str> {
            (*to == self.bad).then_some("never bad")
        }

        fn possibilities(&self) -> Vec<Possibility<u8>> {
            vec![Possibility {
                name: "can begin again",
                asked: |_| true,
                reached: |state| *state == 0,
                by: &[Class::Plain],
            }]
        }

        fn show(&self, state: &u8) -> String {
            state.to_string()
        }
    }

    #[test]
    fn every_state_is_visited_once_and_the_search_ends() {
        let report = check(&Counter { top: 200, bad: 255, back: Class::Plain }, 1000);
        assert!(report.broken.is_none(), "{report:?}");
        assert_eq!((report.states, report.steps, report.depth), (201, 400, 100));
    }

    #[test]
    fn the_way_to_what_is_broken_is_the_shortest() {
        let broken = check(&Counter { top: 200, bad: 7, back: Class::Plain }, 1000).broken.unwrap();
        assert_eq!(broken.property, "never bad");
        assert_eq!(broken.trace.matches("counter: up").count(), 4, "{broken}");
    }

    #[test]
    fn what_needs_a_fault_to_happen_is_not_possible() {
        let broken = check(&Counter { top: 5, bad: 255, back: Class::Fault }, 1000).broken.unwrap();
        assert_eq!(broken.property, "can begin again");
    }

    #[test]
    fn a_search_without_end_says_so() {
        let broken = check(&Counter { top: 200, bad: 255, back: Class::Plain }, 50).broken.unwrap();
        assert_eq!(broken.property, "the search ends within its limit");
    }
}
