//! `<base>/currterm`: the term and the vote given in it, in Java's text form.
//!
//! Java neither syncs this file nor replaces it atomically, and forgets its vote when the file is missing. Here it
//! is replaced atomically and durably before a term or a vote is spoken; and if it is missing although there are
//! traces of earlier terms, the member counts as having voted.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fs::Fs;
use crate::properties;

/// Name of the file.
pub const FILE_NAME: &str = "currterm";

/// For whom this member voted in a term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vote {
    /// For nobody yet.
    None,
    /// For this member.
    For(String),
    /// For somebody, but the record is lost: no vote may be given in this term.
    Unknown,
}

/// Term and vote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoteState {
    /// The term; a new member starts in term 0.
    pub term: i64,
    /// The vote in that term.
    pub vote: Vote,
}

/// The vote file of a log.
#[derive(Debug)]
pub struct VoteFile {
    fs: Arc<dyn Fs>,
    base: PathBuf,
    state: VoteState,
}

impl VoteFile {
    /// Reads term and vote. `ledger_end_term` is the term of the last entry, −1 for an empty log: the member's term
    /// cannot be smaller. Writes nothing.
    pub fn load(fs: Arc<dyn Fs>, base: &Path, ledger_end_term: i64) -> io::Result<VoteFile> {
        let read = |name: &str| read_state(&*fs, &base.join(name));
        let state = match read(FILE_NAME)? {
            Some(state) if state.term >= ledger_end_term => state,
            Some(_) => VoteState {
                term: ledger_end_term,
                vote: Vote::Unknown,
            },
            None => {
                let remnants = [read("currterm.tmp")?, read("currterm.bak")?];
                match remnants
                    .iter()
                    .flatten()
                    .map(|state| state.term)
                    .max()
                    .unwrap_or(-1)
                    .max(ledger_end_term)
                {
                    -1 => VoteState {
                        term: 0,
                        vote: Vote::None,
                    },
                    term => VoteState {
                        term,
                        vote: Vote::Unknown,
                    },
                }
            }
        };
        Ok(VoteFile {
            fs,
            base: base.to_owned(),
            state,
        })
    }

    /// Term and vote as last read or saved.
    pub fn state(&self) -> &VoteState {
        &self.state
    }

    /// Replaces term and vote, atomically and durably. Only after it returned may they be spoken.
    pub fn save(&mut self, term: i64, voted_for: Option<&str>) -> io::Result<()> {
        let text = format!(
            "voteLeader={}\ncurrTerm={term}\n",
            voted_for.unwrap_or_default()
        );
        self.fs
            .write_durable(&self.base.join(FILE_NAME), text.as_bytes())?;
        let vote = voted_for.map_or(Vote::None, |id| Vote::For(id.to_owned()));
        self.state = VoteState { term, vote };
        Ok(())
    }
}

/// `None` if the file is missing or holds no term (a power failure can leave it empty in Java).
fn read_state(fs: &dyn Fs, path: &Path) -> io::Result<Option<VoteState>> {
    let bytes = match fs.read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let found = properties::parse(&String::from_utf8_lossy(&bytes));
    let Some(term) = found
        .get("currTerm")
        .and_then(|term| term.trim().parse::<i64>().ok())
    else {
        return Ok(None);
    };
    let vote = match found.get("voteLeader").map(|id| id.trim()) {
        None | Some("") => Vote::None,
        Some(id) => Vote::For(id.to_owned()),
    };
    Ok((term >= 0).then_some(VoteState { term, vote }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    fn fs() -> Arc<dyn Fs> {
        let fs = MemFs::new();
        fs.create_dir_all(Path::new("/b")).unwrap();
        Arc::new(fs)
    }

    fn load(fs: &Arc<dyn Fs>, end_term: i64) -> VoteState {
        VoteFile::load(Arc::clone(fs), Path::new("/b"), end_term)
            .unwrap()
            .state()
            .clone()
    }

    #[test]
    fn a_new_member_is_in_term_0_without_a_vote() {
        assert_eq!(
            load(&fs(), -1),
            VoteState {
                term: 0,
                vote: Vote::None
            }
        );
    }

    #[test]
    fn a_lost_file_counts_as_a_vote_given() {
        let fs = fs();
        assert_eq!(
            load(&fs, 0),
            VoteState {
                term: 0,
                vote: Vote::Unknown
            }
        );
        assert_eq!(
            load(&fs, 7),
            VoteState {
                term: 7,
                vote: Vote::Unknown
            }
        );
        fs.write(Path::new("/b/currterm.bak"), b"voteLeader=\ncurrTerm=9\n")
            .unwrap();
        assert_eq!(
            load(&fs, 7),
            VoteState {
                term: 9,
                vote: Vote::Unknown
            }
        );
        fs.write(Path::new("/b/currterm"), b"").unwrap();
        assert_eq!(
            load(&fs, 7),
            VoteState {
                term: 9,
                vote: Vote::Unknown
            }
        );
    }

    #[test]
    fn reads_java_and_itself() {
        let fs = fs();
        fs.write(Path::new("/b/currterm"), b"voteLeader=n0\ncurrTerm=0\n")
            .unwrap();
        assert_eq!(
            load(&fs, 0),
            VoteState {
                term: 0,
                vote: Vote::For("n0".into())
            }
        );
        let mut file = VoteFile::load(Arc::clone(&fs), Path::new("/b"), 0).unwrap();
        file.save(3, None).unwrap();
        assert_eq!(
            load(&fs, 2),
            VoteState {
                term: 3,
                vote: Vote::None
            }
        );
        file.save(3, Some("n1")).unwrap();
        assert_eq!(load(&fs, 2), *file.state());
        assert_eq!(
            load(&fs, 4),
            VoteState {
                term: 4,
                vote: Vote::Unknown
            }
        );
    }
}
