//! The broker itself: configuration, figures, cleaning, tables for followers.

use remoting::{Reply, Response, request_code as code, response_code};

use super::{Answer, Call, Lane, Refusal, answer, consume_stats};
use crate::config::UpdateError;
use crate::store::CleanPolicy;

pub(super) fn lane(request_code: i32) -> Option<Lane> {
    Some(match request_code {
        code::UPDATE_BROKER_CONFIG => Lane::Waiting(update_config),
        code::GET_BROKER_CONFIG => Lane::Quick(config),
        code::GET_BROKER_RUNTIME_INFO => Lane::Slow(runtime_info),
        code::GET_ALL_CONSUMER_OFFSET => Lane::Slow(all_offsets),
        code::GET_ALL_DELAY_OFFSET => Lane::Slow(delay_offsets),
        code::CLEAN_EXPIRED_CONSUMEQUEUE => Lane::Slow(clean_queues),
        code::CLEAN_UNUSED_TOPIC => Lane::Slow(clean_unused_topics),
        code::DELETE_EXPIRED_COMMITLOG => Lane::Slow(delete_expired),
        code::VIEW_BROKER_STATS_DATA => Lane::Quick(statistics),
        code::GET_CONSUME_STATS => Lane::Slow(consume_stats::of_group),
        code::GET_BROKER_CONSUME_STATS => Lane::Slow(consume_stats::of_broker),
        code::QUERY_CORRECTION_OFFSET => Lane::Quick(consume_stats::correction),
        code::UPDATE_AND_CREATE_ACL_CONFIG
        | code::DELETE_ACL_CONFIG
        | code::GET_BROKER_CLUSTER_ACL_INFO
        | code::UPDATE_GLOBAL_WHITE_ADDRS_CONFIG
        | code::GET_BROKER_CLUSTER_ACL_CONFIG => Lane::Quick(acl),
        _ => return None,
    })
}

/// 25: changes the configuration, all of the request or nothing of it.
fn update_config(call: Call, reply: Reply) {
    let broker = call.broker.clone();
    broker.blocking(move || reply.send(answer(update_config_now(&call))));
}

fn update_config_now(call: &Call) -> Answer {
    let updated = call
        .broker
        .settings
        .update(&call.request.body)
        .map_err(|error| match error {
            UpdateError::BlackListed => {
                Refusal::new(response_code::NO_PERMISSION, error.to_string())
            }
            UpdateError::Invalid(_) | UpdateError::Unwritable { .. } => {
                Refusal::error(error.to_string())
            }
        })?;
    tracing::info!(changed = ?updated.changed, peer = %call.conn.peer(), "configuration changed");
    if updated.permission_changed {
        call.broker.permission_changed();
    }
    let response = Response::ok();
    Ok(match updated.remark {
        Some(remark) => response.remark(remark),
        None => response,
    })
}

/// 26: the effective configuration.
fn config(call: &Call) -> Answer {
    let settings = &call.broker.settings;
    Ok(Response::ok()
        .field("version", settings.version().to_json())
        .body(settings.get().print_all()))
}

/// 28: figures of the broker.
fn runtime_info(call: &Call) -> Answer {
    let broker = &call.broker;
    Ok(Response::ok().body(
        broker
            .stats
            .runtime_body(&broker.config(), &broker.store.facts()),
    ))
}

/// 43: the offsets of all groups.
fn all_offsets(call: &Call) -> Answer {
    Ok(Response::ok()
        .with_fields()
        .body(call.broker.offsets.body()))
}

/// 45: how far each delay level was delivered: the table as it lies in the store.
fn delay_offsets(call: &Call) -> Answer {
    let text = call
        .broker
        .delay_offsets()
        .unwrap_or_else(|| r#"{"offsetTable":{}}"#.to_owned());
    Ok(Response::ok().body(text))
}

/// 306: removes queue files before the beginning of the log.
fn clean_queues(call: &Call) -> Answer {
    call.broker
        .store
        .clean_queues()
        .map_err(|error| Refusal::error(error.to_string()))?;
    Ok(Response::ok())
}

/// 316: removes the queues of topics that are not in the table any more.
fn clean_unused_topics(call: &Call) -> Answer {
    let broker = &call.broker;
    for topic in broker.store.topics() {
        if !broker.topics.contains(&topic) && !broker.topics.is_system(&topic) {
            broker
                .store
                .remove_topic(&topic)
                .map_err(|error| Refusal::error(error.to_string()))?;
            tracing::info!(topic = &*topic, "queues of an unused topic removed");
        }
    }
    Ok(Response::ok())
}

/// 329: removes expired log files now, whatever the hour.
fn delete_expired(call: &Call) -> Answer {
    call.broker
        .store
        .clean_log(&call.broker.with_config(CleanPolicy::now), true)
        .map_err(|error| Refusal::error(error.to_string()))?;
    Ok(Response::ok())
}

/// 315: one statistic.
fn statistics(call: &Call) -> Answer {
    let (name, key) = (call.text("statsName")?, call.text("statsKey")?);
    match call.broker.stats.windows_body(name, key) {
        Some(body) => Ok(Response::ok().body(body)),
        None => Err(Refusal::error(format!(
            "The stats <{name}> <{key}> not exist"
        ))),
    }
}

/// 50 to 54: there is no access control, which is said instead of leaving the tool to time out.
fn acl(_: &Call) -> Answer {
    Err(Refusal::error(
        "access control lists are not served by LedgerMQ: restrict access by the network",
    ))
}
