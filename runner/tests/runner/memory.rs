//! The cloud in memory: objects with versions, parameters, one caller.

use std::collections::BTreeMap;
use std::sync::Mutex;

use plangate_runner::cloud::{Cloud, Fetched, Place, Protection, Put, Secret, Session};
use plangate_runner::error::{Result, RunnerError};

/// One version of an object.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) id: String,
    pub(crate) bytes: Vec<u8>,
    /// The key it was written under, if the writer named one.
    pub(crate) key_arn: Option<String>,
    /// The name that the writer gave himself.
    pub(crate) writer: Option<String>,
}

#[derive(Default)]
struct Inside {
    objects: BTreeMap<(String, String), Vec<Version>>,
    versions: u64,
    /// What is written to a key once it has been read for the first time.
    moves: BTreeMap<String, Vec<u8>>,
    broken: Vec<(&'static str, String, usize)>,
    lost: Vec<String>,
    recovering: Vec<(&'static str, String, usize)>,
}

/// The store.
#[derive(Default)]
pub(crate) struct Memory {
    inside: Mutex<Inside>,
    pub(crate) caller: Mutex<String>,
    pub(crate) parameters: Mutex<BTreeMap<String, String>>,
    /// The roles that were assumed, each with the external id and the source identity.
    pub(crate) assumed: Mutex<Vec<[String; 3]>>,
}

impl Memory {
    /// Writes an object, whatever stands there.
    pub(crate) fn put(&self, bucket: &str, key: &str, bytes: &[u8], key_arn: Option<&str>) -> String {
        self.put_by(bucket, key, bytes, key_arn, None)
    }

    /// The same, by a writer who names himself.
    pub(crate) fn put_by(
        &self,
        bucket: &str,
        key: &str,
        bytes: &[u8],
        key_arn: Option<&str>,
        writer: Option<&str>,
    ) -> String {
        let mut inside = self.inside.lock().unwrap();
        inside.versions += 1;
        let id = format!("v{}", inside.versions);
        let (key_arn, writer) = (key_arn.map(str::to_owned), writer.map(str::to_owned));
        let version = Version { id: id.clone(), bytes: bytes.to_vec(), key_arn, writer };
        inside.objects.entry((bucket.to_owned(), key.to_owned())).or_default().push(version);
        id
    }

    pub(crate) fn delete(&self, bucket: &str, key: &str) {
        self.inside.lock().unwrap().objects.remove(&(bucket.to_owned(), key.to_owned()));
    }

    pub(crate) fn get(&self, bucket: &str, key: &str) -> Option<Version> {
        let inside = self.inside.lock().unwrap();
        inside.objects.get(&(bucket.to_owned(), key.to_owned()))?.last().cloned()
    }

    pub(crate) fn keys(&self) -> Vec<(String, String)> {
        self.inside.lock().unwrap().objects.keys().cloned().collect()
    }

    /// Every byte that is stored, by bucket and key.
    pub(crate) fn everything(&self) -> Vec<((String, String), Vec<u8>)> {
        let inside = self.inside.lock().unwrap();
        let all = inside.objects.iter();
        all.flat_map(|(at, versions)| versions.iter().map(|v| (at.clone(), v.bytes.clone()))).collect()
    }

    /// Somebody else writes `bytes` to `key` right after it was first read.
    pub(crate) fn move_after_first_read(&self, key: &str, bytes: &[u8]) {
        self.inside.lock().unwrap().moves.insert(key.to_owned(), bytes.to_vec());
    }

    /// From the call after `good` more on, `call` on keys that begin with `prefix` fails.
    pub(crate) fn break_after(&self, call: &'static str, prefix: &str, good: usize) {
        self.inside.lock().unwrap().broken.push((call, prefix.to_owned(), good));
    }

    /// The first `bad` of `call` on keys that begin with `prefix` fail.
    pub(crate) fn recover_after(&self, call: &'static str, prefix: &str, bad: usize) {
        self.inside.lock().unwrap().recovering.push((call, prefix.to_owned(), bad));
    }

    /// Requests to write keys that begin with `prefix` are carried out, and their answers are lost.
    pub(crate) fn lose_answers(&self, prefix: &str) {
        self.inside.lock().unwrap().lost.push(prefix.to_owned());
    }

    /// Whether this call is to be answered at all.
    pub(crate) fn check(&self, call: &str, key: &str) -> Result<()> {
        let mut inside = self.inside.lock().unwrap();
        for (recovering, prefix, bad) in &mut inside.recovering {
            if *recovering == call && key.starts_with(prefix.as_str()) && *bad > 0 {
                *bad -= 1;
                return Err(RunnerError::gate(format!("{call} of `{key}`: SlowDown (503)")));
            }
        }
        for (broken, prefix, good) in &mut inside.broken {
            if *broken == call && key.starts_with(prefix.as_str()) {
                if *good == 0 {
                    return Err(RunnerError::gate(format!("{call} of `{key}`: AccessDenied (403)")));
                }
                *good -= 1;
            }
        }
        Ok(())
    }
}

impl Cloud for Memory {
    fn caller(&self) -> Result<String> {
        Ok(self.caller.lock().unwrap().clone())
    }

    fn assume(&self, role: &str, external_id: &str, run: &str) -> Result<Session> {
        self.check("assume", role)?;
        self.assumed.lock().unwrap().push([role, external_id, run].map(str::to_owned));
        let (account, name) = (role.split(':').nth(4).unwrap(), role.rsplit('/').next().unwrap());
        let secret = |what: &str| Secret::new(format!("estate-{what}-{run}"));
        Ok(Session {
            caller: format!("arn:aws:sts::{account}:assumed-role/{name}/{run}"),
            access_key_id: "ASIAESTATE".to_owned(),
            secret_access_key: secret("key"),
            session_token: secret("token"),
        })
    }

    fn parameters(&self, names: &[String]) -> Result<BTreeMap<String, Secret>> {
        let parameters = self.parameters.lock().unwrap();
        let found = names.iter().filter_map(|name| Some((name.clone(), Secret::new(parameters.get(name)?.clone()))));
        Ok(found.collect())
    }

    fn fetch(&self, place: Place<'_>, limit: u64) -> Result<Option<Fetched>> {
        self.check("fetch", place.key)?;
        let found = self.get(place.bucket, place.key);
        let moved = self.inside.lock().unwrap().moves.remove(place.key);
        if let Some(bytes) = moved {
            self.put(place.bucket, place.key, &bytes, None);
        }
        match found {
            Some(version) if version.bytes.len() as u64 > limit => {
                Err(RunnerError::TooLarge { place: place.to_string(), limit })
            }
            other => Ok(other.map(|version| Fetched { bytes: version.bytes, version_id: Some(version.id) })),
        }
    }

    fn put_new(&self, place: Place<'_>, bytes: &[u8], protection: Protection<'_>) -> Result<Put> {
        self.check("put", place.key)?;
        let lost = self.inside.lock().unwrap().lost.iter().any(|prefix| place.key.starts_with(prefix.as_str()));
        if self.get(place.bucket, place.key).is_some() {
            return Ok(if lost { Put::Perhaps } else { Put::Exists });
        }
        let key_arn = match protection {
            Protection::Bucket => None,
            Protection::Key(arn) => Some(arn),
        };
        let version = self.put(place.bucket, place.key, bytes, key_arn);
        Ok(if lost { Put::Perhaps } else { Put::Written { version_id: Some(version) } })
    }

    fn claim(&self, place: Place<'_>, bytes: &[u8]) -> Result<Put> {
        self.check("claim", place.key)?;
        self.put_new(place, bytes, Protection::Bucket)
    }
}
