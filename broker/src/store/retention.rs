//! Removing what is old, and judging how full the disks are.

use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::Timelike;
use commitlog::{Removed, Sweep};

use super::{MessageStore, StoreError};
use crate::config::BrokerConfig;
use crate::tables::now_ms;

/// Files of the log that one round removes.
const FILES_A_ROUND: usize = 10;

/// When files are removed, as configured.
#[derive(Debug, Clone, Copy)]
pub struct CleanPolicy {
    /// How long files are kept.
    pub reserved: Duration,
    /// The hour in which files of that age go.
    pub hour_has_come: bool,
    /// Used part of a disk above which they go at any hour.
    pub max_used: f64,
    /// Used part above which files go before their time.
    pub forcibly_above: f64,
    /// Whether they may.
    pub forcibly: bool,
    /// Used part above which nothing more is stored.
    pub full_above: f64,
}

impl CleanPolicy {
    /// The policy at this moment.
    pub fn now(config: &BrokerConfig) -> Self {
        let part = |percent: i32| f64::from(percent) / 100.0;
        CleanPolicy {
            reserved: Duration::from_secs(config.file_reserved_time.max(0) as u64 * 3600),
            hour_has_come: config.delete_when.contains(chrono::Local::now().hour()),
            max_used: part(config.disk_max_used_space_ratio.clamp(10, 95)),
            forcibly_above: part(config.disk_space_clean_forcibly_ratio.clamp(30, 85)),
            forcibly: config.clean_file_forcibly_enable,
            full_above: part(config.disk_space_warning_level_ratio.clamp(35, 90)),
        }
    }
}

impl MessageStore {
    /// Used part of each disk that the log lies on.
    pub fn log_disks(&self) -> Vec<(String, f64)> {
        let used = |dir: &std::path::PathBuf| {
            let space = self.fs.space(dir).ok()?;
            Some((dir.display().to_string(), space.used_ratio()))
        };
        self.log.data_dirs().iter().filter_map(used).collect()
    }

    /// Used part of the fullest disk of the log.
    fn used(&self) -> f64 {
        self.log_disks()
            .into_iter()
            .map(|(_, used)| used)
            .fold(0.0, f64::max)
    }

    /// Looks how full the disks are. Sends are refused while they are too full, and accepted again by
    /// themselves.
    pub fn judge_disks(&self, policy: &CleanPolicy) {
        let used = self.used();
        let full = used > policy.full_above;
        if self.disk_full.swap(full, Ordering::AcqRel) != full {
            if full {
                tracing::error!(
                    used,
                    limit = policy.full_above,
                    "the disk is too full: sends are refused"
                );
            } else {
                tracing::info!(
                    used,
                    limit = policy.full_above,
                    "there is room on the disk again: sends are accepted"
                );
            }
        }
    }

    /// Removes expired files of the log, and what is derived of them. `now` does so at any hour.
    pub fn clean_log(&self, policy: &CleanPolicy, now: bool) -> Result<Removed, StoreError> {
        let used = self.used();
        let forced = policy.forcibly && used > policy.forcibly_above;
        let before = self.log.min_offset();
        let nothing = Removed {
            legacy: Vec::new(),
            dledger: 0,
            min_offset: before,
        };
        if !now && !policy.hour_has_come && used <= policy.max_used && !forced {
            return Ok(nothing);
        }
        let older_than_ms = if forced {
            i64::MAX
        } else {
            match self.clock.lock().held_for(now_ms(), self.opened.elapsed()) {
                Some(_) => return Ok(nothing),
                None => now_ms() - policy.reserved.as_millis() as i64,
            }
        };
        let sweep = Sweep {
            older_than_ms,
            max_files: FILES_A_ROUND,
            keep_from: self.dispatcher.position(),
        };
        let removed = self.log.expire(&sweep)?;
        if removed.min_offset > before {
            tracing::info!(
                legacy = removed.legacy.len(),
                dledger = removed.dledger,
                min_offset = removed.min_offset,
                used,
                forced,
                "files of the log removed"
            );
            self.clean_queues()?;
        }
        Ok(removed)
    }

    /// Removes what queues and index hold of messages that are gone.
    pub fn clean_queues(&self) -> Result<(), StoreError> {
        let min = self.log.min_offset();
        self.queues.expire(min)?;
        if let Some(index) = &self.index {
            index.expire(min)?;
        }
        Ok(())
    }
}
