//! The runner's phases as a whole: over a store in memory with an engine that is a script, and with the real engine
//! over a small S3 of its own.

#[cfg(test)]
mod apply;
#[cfg(test)]
mod aws;
#[cfg(test)]
mod http;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod program;
#[cfg(test)]
mod real;
#[cfg(test)]
mod stage;
