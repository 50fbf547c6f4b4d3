//! What goes on while a store is open, and its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::retention::CleanPolicy;
use super::{MessageStore, StoreError};
use crate::config::Settings;
use crate::stats::RuntimeFacts;

/// How often it is looked how full the disks are.
const JUDGE_EVERY: Duration = Duration::from_secs(1);
/// Files are removed no sooner than this after the start.
const FIRST_CLEAN_AFTER: Duration = Duration::from_secs(60);

/// The tasks of an open store.
#[derive(Debug)]
pub struct Running {
    stop: CancellationToken,
    dispatch: tokio::task::JoinHandle<()>,
    others: Vec<tokio::task::JoinHandle<()>>,
}

impl MessageStore {
    /// Starts the work in the background: dispatch, checkpoints, retention.
    pub fn run(self: &Arc<Self>, settings: &Arc<Settings>) -> Running {
        let stop = CancellationToken::new();
        let (store, stopped) = (self.clone(), stop.clone());
        let dispatch = tokio::spawn(async move { store.dispatcher.run(stopped.cancelled()).await });
        let config = settings.get();
        let every = |millis: i32| Duration::from_millis(millis.max(10) as u64);
        let flush = every(config.flush_interval_consume_queue);
        let clean = every(config.clean_resource_interval);
        let settings_of = |_: &()| settings.clone();
        let (for_judge, for_clean) = (settings_of(&()), settings_of(&()));
        let others = vec![
            self.repeat(&stop, flush, flush, |store| {
                if let Err(error) = store.write_checkpoint() {
                    tracing::error!(%error, "queues, index or checkpoint could not be made durable; trying again");
                }
            }),
            self.repeat(&stop, JUDGE_EVERY, JUDGE_EVERY, move |store| {
                store.judge_disks(&for_judge.with(CleanPolicy::now));
            }),
            self.repeat(&stop, FIRST_CLEAN_AFTER, clean, move |store| {
                if let Err(error) = store.clean_log(&for_clean.with(CleanPolicy::now), false) {
                    tracing::error!(%error, "old files could not be removed; trying again");
                }
            }),
        ];
        Running {
            stop,
            dispatch,
            others,
        }
    }

    /// Does blocking work again and again until stopped, first after `first`.
    fn repeat(
        self: &Arc<Self>,
        stop: &CancellationToken,
        first: Duration,
        every: Duration,
        work: impl Fn(&MessageStore) + Send + Sync + 'static,
    ) -> tokio::task::JoinHandle<()> {
        let (store, stop, work) = (self.clone(), stop.clone(), Arc::new(work));
        tokio::spawn(async move {
            let mut pause = first;
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = every;
                let (store, work) = (store.clone(), work.clone());
                let _ = tokio::task::spawn_blocking(move || work(&store)).await;
            }
        })
    }

    /// Makes queues and index durable, then notes it in the store's checkpoint, in this order. Blocks.
    pub fn write_checkpoint(&self) -> Result<(), StoreError> {
        if self.dispatcher.position() == self.checkpointed.load(Ordering::Acquire) {
            return Ok(());
        }
        let done = self.dispatcher.checkpoint()?;
        self.save_checkpoint(&done)
    }

    pub(super) fn save_checkpoint(
        &self,
        done: &consumequeue::Checkpoint,
    ) -> Result<(), StoreError> {
        let mut checkpoint = self.checkpoint.lock();
        if done.store_timestamp > 0 {
            checkpoint.set_physic_msg_timestamp(done.store_timestamp);
            checkpoint.set_logics_msg_timestamp(done.store_timestamp);
        }
        if done.index_timestamp > 0 {
            checkpoint.set_index_msg_timestamp(done.index_timestamp);
        }
        checkpoint
            .save(&*self.fs, &self.layout.checkpoint())
            .map_err(|source| StoreError::Io {
                what: "writing the store's checkpoint",
                source,
            })?;
        self.checkpointed.store(done.position, Ordering::Release);
        Ok(())
    }

    /// No message is stored from now on.
    pub fn refuse_sends(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Ends the work in the background, dispatches the rest, syncs everything, and marks the stop as
    /// clean.
    pub async fn close(self: &Arc<Self>, running: Running) -> Result<(), StoreError> {
        self.refuse_sends();
        running.stop.cancel();
        let _ = running.dispatch.await;
        for task in running.others {
            let _ = task.await;
        }
        self.seal().await
    }

    /// Dispatches the rest, syncs everything, and marks the stop as clean. Nothing else uses the store any more.
    pub(super) async fn seal(self: &Arc<Self>) -> Result<(), StoreError> {
        let failed = |what, error: String| StoreError::Io {
            what,
            source: std::io::Error::other(error),
        };
        let store = self.clone();
        let queues = tokio::task::spawn_blocking(move || {
            let done = store.dispatcher.close()?;
            store.save_checkpoint(&done)
        });
        let queues = queues
            .await
            .unwrap_or_else(|error| Err(failed("closing the queues", error.to_string())));
        let log = self
            .log
            .shutdown()
            .await
            .map_err(|error| failed("closing the log", error.to_string()));
        queues?;
        log?;
        self.layout
            .remove_abort(&*self.fs)
            .map_err(|source| StoreError::Io {
                what: "removing the abort file",
                source,
            })
    }

    /// Figures for the runtime info.
    pub fn facts(&self) -> RuntimeFacts {
        let status = self.log.status();
        let space = self
            .log
            .data_dirs()
            .first()
            .and_then(|dir| self.fs.space(dir).ok());
        let queues = self
            .fs
            .space(&self.layout.consumequeue())
            .map_or(0.0, |space| space.used_ratio());
        let pair = |name: &str, value: String| (name.to_owned(), value);
        RuntimeFacts {
            version: remoting::command::VERSION_DEFAULT,
            version_name: "V4_9_8".to_owned(),
            commit_log_min: self.log.min_offset(),
            commit_log_max: self.log.max_offset(),
            dispatch_behind_bytes: self.dispatcher.behind_bytes(),
            unflushed_bytes: (status.end_pos - status.flushed_pos).max(0),
            earliest_message_ms: self.log.earliest_store_timestamp().unwrap_or(-1),
            put_lock_ms: 0,
            commit_log_disks: self.log_disks(),
            consume_queue_disk_ratio: queues,
            disk_total: space.map_or(0, |space| space.total),
            disk_free: space.map_or(0, |space| space.available),
            schedule: self.schedule(),
            extra: vec![
                pair("dledgerGroup", status.group.clone()),
                pair("dledgerSelfId", status.self_id.to_string()),
                pair("dledgerRole", format!("{:?}", status.role)),
                pair("dledgerTerm", status.term.to_string()),
                pair("dledgerEndIndex", status.end_index.to_string()),
                pair("dledgerCommittedIndex", status.committed_index.to_string()),
                pair("dledgerFlushedIndex", status.flushed_index.to_string()),
                pair("durabilityClass", status.durability.class().to_string()),
                pair(
                    "longestUnsyncedMicros",
                    status.sync.longest_unsynced.as_micros().to_string(),
                ),
            ],
        }
    }

    /// Level, delivered offset and end of each delay level that has messages.
    fn schedule(&self) -> Vec<(i32, i64, i64)> {
        let delivered = self.delivered();
        let level = |level: i32| {
            let (min, max) = self.queue_range(remoting::message::topic::SCHEDULE, level - 1);
            let delivered = delivered.get(&level).copied().unwrap_or(min);
            (max > 0 || delivered > 0).then_some((level, delivered, max))
        };
        (1..=self.levels.max_level()).filter_map(level).collect()
    }

    /// What `delayOffset.json` says; it is not written while delayed messages are not delivered.
    fn delivered(&self) -> std::collections::HashMap<i32, i64> {
        let bytes = self
            .fs
            .read(&self.layout.config("delayOffset.json"))
            .unwrap_or_default();
        let Ok(value) = remoting::fastjson::parse(&bytes) else {
            return Default::default();
        };
        let table = value["offsetTable"].as_object().into_iter().flatten();
        table
            .filter_map(|(level, offset)| Some((level.parse().ok()?, offset.as_i64()?)))
            .collect()
    }
}
