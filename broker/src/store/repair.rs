//! Repair of a stopped store: what a start and a clean stop of the broker would mend, without serving anyone.

use std::sync::Arc;

use commitlog::upgrade::Plan;
use consumequeue::{Arrival, Arrivals};
use dledger::fs::Fs;
use dledger::store::ShortLog;

use super::opening::{OnStage, Opened, OpeningError};
use crate::config::BrokerConfig;
use crate::store::{MessageStore, StoreError};
use crate::tables::{TableError, TopicTable};

/// Why a repair did not come to its end. What was done until then is sound, and a further repair goes on.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// There is nothing that a repair may touch.
    #[error("{0}")]
    NotOurs(String),
    /// The store does not open.
    #[error(transparent)]
    Opening(#[from] OpeningError),
    /// The topics cannot be read, and without them it is not known which queues to build.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Queues, index or log could not be closed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a repair came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repaired {
    /// First position of the log.
    pub begin: i64,
    /// End of the log.
    pub end: i64,
    /// Last entry of the log; -1 for none.
    pub end_index: i64,
}

/// Nobody waits for messages.
struct Nobody;

impl Arrivals for Nobody {
    fn arrived(&self, _batch: &[Arrival<'_>]) {}
}

/// Recovers the log, builds what is missing of queues and index, syncs, and marks the store as cleanly stopped: after
/// this a Java broker opens it without leaving holes in queues. A log that ends before its own checkpoint is accepted
/// as it is: this is the operator's word that what is lost is lost.
pub async fn repair(
    fs: Arc<dyn Fs>,
    config: &BrokerConfig,
    progress: OnStage,
) -> Result<Repaired, RepairError> {
    let mut opened = Opened::examine(fs.clone(), config, &progress)?;
    match opened.plan() {
        Plan::Dledger | Plan::Mixed { .. } => {}
        Plan::New => return Err(RepairError::NotOurs("there is no log to repair".into())),
        Plan::Upgrade(_) => {
            return Err(RepairError::NotOurs(
                "a plain store: nothing of a DLedger log is there to repair; a start of mqbroker recovers and upgrades it, a \
                 plain Java broker recovers it as well"
                    .into(),
            ));
        }
    }
    opened.accept_short_log(ShortLog::Accept);
    opened.forget_dispatch_mark()?;
    let topics = Arc::new(TopicTable::open(fs, &config.config_dir(), config)?);
    let store: MessageStore = opened
        .open(config, topics, Arc::new(Nobody), progress)
        .await?;
    let store = Arc::new(store);
    let status = store.log().status();
    let repaired = Repaired {
        begin: store.log().min_offset(),
        end: store.log().max_offset(),
        end_index: status.end_index,
    };
    store.seal().await?;
    Ok(repaired)
}
