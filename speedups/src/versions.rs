//! Versions of rows in RocksDB: the row key, then the complement of the timestamp.
//!
//! The reference is `newest_versions` of `storage/rocks/versions.py`.

/// The bytes of a table's number, with which physical keys begin.
const NUMBER: usize = 4;
/// Greater than the stamps of all versions of a row.
const BEHIND: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0];

/// A version that a snapshot reads, unless it is a tombstone.
#[derive(Debug, PartialEq)]
pub struct Found<'a> {
    pub key: &'a [u8],
    pub timestamp: u64,
}

/// Which versions a snapshot reads, of physical keys in their order: of each row the first one that
/// is not newer than the snapshot.
pub struct Newest {
    least: [u8; 8],
    most_steps: usize,
    row: Vec<u8>,
    done: bool,
    steps: usize,
}

impl Newest {
    /// `newest` is the complement of the snapshot's timestamp. After `most_steps` further versions
    /// of a row it is worth while to seek.
    pub fn new(newest: u64, most_steps: usize) -> Self {
        Self { least: newest.to_be_bytes(), most_steps, row: Vec::new(), done: false, steps: 0 }
    }

    /// The next version, if the snapshot reads it. Fails for keys that are too short.
    #[inline]
    pub fn step<'a>(&mut self, physical: &'a [u8]) -> Result<Option<Found<'a>>, String> {
        let found = physical.split_last_chunk::<8>();
        let found = found.and_then(|(row, stamp)| Some((row, row.get(NUMBER..)?, stamp)));
        let (row, key, stamp) = found.ok_or("a key of the store is too short")?;
        if self.row != row {
            self.row.clear();
            self.row.extend(row);
            self.done = false;
            self.steps = 0;
        }
        let first = !self.done && *stamp >= self.least;
        if first {
            self.done = true;
            self.steps = 0;
        }
        self.steps = self.steps.saturating_add(1);
        let timestamp = !u64::from_be_bytes(*stamp);
        Ok(first.then_some(Found { key, timestamp }))
    }

    /// The physical key at which to go on, if the last row has many more versions.
    #[inline]
    pub fn seek(&mut self) -> Option<Vec<u8>> {
        if self.steps <= self.most_steps {
            return None;
        }
        self.steps = 0;
        let behind = if self.done { BEHIND } else { &self.least };
        Some([&self.row, behind].concat())
    }
}
