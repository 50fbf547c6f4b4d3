//! What is derived from the message log: consume queues, key index, dispatcher.
