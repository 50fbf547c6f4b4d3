//! The next offset of every queue, for the sends: what the queues hold, continued.

use commitlog::QueueOffsets;

use crate::queues::ConsumeQueues;

/// Sets the table to the maximum offsets of the queues. Called when the queues have caught up with the log and
/// before sends are accepted; also when a member becomes leader.
pub fn rebuild(queues: &ConsumeQueues, table: &QueueOffsets) {
    let all = queues.all();
    table.rebuild(
        all.iter()
            .map(|queue| (queue.topic(), queue.queue_id(), queue.max_offset())),
    );
}
