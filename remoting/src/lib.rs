//! The RocketMQ remoting wire: frames, commands, headers, bodies, server and client.
