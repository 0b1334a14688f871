//! Something that is read again after a while: what a process keeps must not outlive what it was read from for long.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A value, and when it was read.
#[derive(Debug)]
pub struct Cached<T>(Mutex<Option<(Instant, T)>>);

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Cached<T> {
    /// Nothing, yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Cached<T> {
    /// The value, if it was read less than `at_most` ago.
    pub fn get(&self, at_most: Duration) -> Option<T> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().filter(|(at, _)| at.elapsed() < at_most).map(|(_, value)| value.clone())
    }

    /// The value, if it was read less than `at_most` ago, else as `read` gives it now, which is kept.
    ///
    /// # Errors
    /// It was to be read, and could not be.
    pub async fn get_or_read<E>(&self, at_most: Duration, read: impl AsyncFnOnce() -> Result<T, E>) -> Result<T, E> {
        if let Some(value) = self.get(at_most) {
            return Ok(value);
        }
        let value = read().await?;
        self.put(value.clone());
        Ok(value)
    }

    /// Forgets the value: it is known not to be good any more.
    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Keeps a value that was just read.
    pub fn put(&self, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_for_as_long_as_is_asked_and_no_longer() {
        let cached = Cached::new();
        assert_eq!(cached.get(Duration::MAX), None);
        cached.put(1);
        assert_eq!(cached.get(Duration::from_secs(3600)), Some(1));
        assert_eq!(cached.get(Duration::ZERO), None);
        cached.put(2);
        assert_eq!(cached.get(Duration::from_secs(3600)), Some(2));
        cached.forget();
        assert_eq!(cached.get(Duration::MAX), None);
    }
}
