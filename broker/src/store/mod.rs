//! STUB for type checks.
use std::sync::Arc;
use bytes::Bytes;
use commitlog::{QueueSlot, frame::MessageToStore};
use smallvec::SmallVec;
use crate::filter::TagFilter;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GetStatus { Found, NoMatchedMessage, MessageWasRemoving, OffsetFoundNull, OffsetOverflowBadly, OffsetOverflowOne, OffsetTooSmall, NoMessageInQueue }
impl GetStatus { pub const fn name(self) -> &'static str { "" } }
#[derive(Debug, Clone, Copy)]
pub struct GetRequest<'a> { pub topic: &'a str, pub queue_id: i32, pub offset: i64, pub max_messages: usize, pub filter: &'a TagFilter }
#[derive(Debug, Clone, Copy)]
pub struct GetLimits { pub in_memory: (usize, usize), pub on_disk: (usize, usize), pub memory_distance: i64 }
#[derive(Debug)]
pub struct Fetched { pub status: GetStatus, pub next_offset: i64, pub min_offset: i64, pub max_offset: i64, pub messages: SmallVec<[Bytes; 32]>, pub bytes: usize, pub behind: i64 }
impl Fetched { pub fn touch(&self) {} }
#[derive(Debug)] pub struct Stored { pub physical_offset: i64, pub queue_offset: i64, pub count: usize, pub bytes: usize }
impl Stored { pub fn more_offsets(&self) -> Option<&[i64]> { None } }
#[derive(Debug, Clone, Copy)] pub struct Delay { pub level: i32, pub replaces_real_place: bool }
#[derive(Debug, thiserror::Error)] #[error("x")] pub struct StoreError;
#[derive(Debug, thiserror::Error)] #[error("x")] pub enum PutError { DiskFull }
impl PutError { pub fn response_code(&self) -> i32 { 1 } }
pub struct Found { pub messages: Vec<Bytes>, pub index_timestamp: i64, pub index_physical_offset: i64 }
#[derive(Debug)] pub struct MessageStore;
#[derive(Debug)] pub struct Queue;
#[derive(Debug, Clone, Copy)] pub struct Unit { pub physical_offset: i64, pub size: i32, pub tags_code: i64 }
impl Queue { pub fn max_offset(&self) -> i64 { 0 } pub fn min_offset(&self) -> i64 { 0 } }
#[derive(Debug, Clone, Copy, PartialEq, Eq)] pub enum Boundary { Lower, Upper, Nearest }
impl MessageStore {
  pub fn get_messages(&self, _: &GetRequest<'_>, _: &GetLimits) -> Fetched { panic!() }
  pub fn behind(&self, _: &str, _: i32, _: i64) -> Option<i64> { panic!() }
  pub fn queue_range(&self, _: &str, _: i32) -> (i64, i64) { panic!() }
  pub fn begins_in_memory(&self, _: &str, _: i32, _: i64) -> bool { panic!() }
  pub fn offset_by_time(&self, _: &str, _: i32, _: i64, _: Boundary) -> Result<i64, StoreError> { panic!() }
  pub fn store_time(&self, _: &str, _: i32, _: i64) -> Option<i64> { panic!() }
  pub fn slot(&self, _: &str, _: i32) -> Arc<QueueSlot> { panic!() }
  pub fn put(&self, _: &MessageToStore<'_>, _: &QueueSlot) -> Result<Stored, PutError> { panic!() }
  pub fn put_delayed(&self, _: MessageToStore<'_>, _: Delay) -> Result<Stored, PutError> { panic!() }
  pub fn put_batch(&self, _: &MessageToStore<'_>, _: &QueueSlot) -> Result<Stored, PutError> { panic!() }
  pub fn is_committed(&self, _: &Stored) -> bool { panic!() }
  pub async fn committed(&self, _: &Stored) -> Result<(), PutError> { panic!() }
  pub fn query(&self, _: &str, _: &str, _: usize, _: i64, _: i64) -> Result<Found, StoreError> { panic!() }
  pub fn message_at(&self, _: i64) -> Option<Bytes> { panic!() }
  pub fn units(&self, _: &str, _: i32, _: i64, _: usize) -> Result<Option<(i64, i64, Vec<Unit>)>, StoreError> { panic!() }
  pub fn topics(&self) -> Vec<Arc<str>> { panic!() }
  pub fn clean_queues(&self) -> Result<(), StoreError> { panic!() }
  pub fn clean_log(&self, _: bool) -> Result<(), StoreError> { panic!() }
  pub fn remove_topic(&self, _: &str) -> Result<(), StoreError> { panic!() }
  pub fn facts(&self) -> crate::stats::RuntimeFacts { panic!() }
}
