#!/usr/bin/env python3
"""Drives the Python client of RocketMQ (over the C++ one) for the end-to-end tests.

client.py send    ns=HOST:PORT topic=T [count=N] [mode=sync|oneway|orderly] [tag=TAG] [size=BYTES]
client.py consume ns=HOST:PORT topic=T expect=N [group=G] [expr=*] [wait=SECONDS]
client.py pull    ns=HOST:PORT topic=T expect=N [group=G]

Output is JSON lines: one a message, and a last one of type "done".
"""
import json
import os
import sys
import threading
import time

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer

ARGS = {}
LOCK = threading.Lock()


def put(**line):
    with LOCK:
        print(json.dumps(line, ensure_ascii=False), flush=True)


def text(value):
    return value.decode('utf-8', 'replace') if isinstance(value, bytes) else value


def consumed(msg):
    put(type='consumed', topic=text(msg.topic), queueId=msg.queue_id, queueOffset=msg.queue_offset,
        phys=msg.commit_log_offset, msgId=text(msg.id), tags=text(msg.tags), keys=text(msg.keys),
        bodyLen=len(msg.body))


def send():
    producer = Producer(ARGS.get('group', 'PyProducer'))
    producer.set_namesrv_addr(ARGS['ns'])
    producer.start()
    mode = ARGS.get('mode', 'sync')
    for i in range(int(ARGS.get('count', 10))):
        msg = Message(ARGS['topic'])
        msg.set_keys(f'py-{i}')
        if ARGS.get('tag'):
            msg.set_tags(ARGS['tag'])
        msg.set_body((f'py-{i} ' + chr(97 + i % 26) * 4096)[:int(ARGS.get('size', 100))])
        if mode == 'oneway':
            producer.send_oneway(msg)
            put(type='send', kind=mode, status='ONEWAY')
        else:
            r = producer.send_orderly(msg, i) if mode == 'orderly' else producer.send_sync(msg)
            put(type='send', kind=mode, status='SEND_OK' if r.status.value == 0 else f'CODE_{r.status.value}',
                msgId=text(r.msg_id), queueOffset=r.offset)
    producer.shutdown()


def consume():
    expect, seen = int(ARGS.get('expect', 1)), threading.Semaphore(0)
    consumer = PushConsumer(ARGS.get('group', 'PyGroup'))
    consumer.set_namesrv_addr(ARGS['ns'])

    def on_message(msg):
        consumed(msg)
        seen.release()

    consumer.subscribe(ARGS['topic'], on_message, ARGS.get('expr', '*'))
    consumer.start()
    end = time.monotonic() + float(ARGS.get('wait', 60))
    for n in range(expect):
        if not seen.acquire(timeout=max(0.01, end - time.monotonic())):
            raise RuntimeError(f'consumed {n} of {expect}')
    consumer.shutdown()


def pull():
    consumer = PullConsumer(ARGS.get('group', 'PyPull'))
    consumer.set_namesrv_addr(ARGS['ns'])
    consumer.start()
    n = 0
    for msg in consumer.pull(ARGS['topic'], ARGS.get('expr', '*')):
        consumed(msg)
        n += 1
    if n < int(ARGS.get('expect', 1)):
        raise RuntimeError(f'pulled {n} of {ARGS["expect"]}')
    consumer.shutdown()


def main():
    ARGS.update(a.split('=', 1) for a in sys.argv[2:])
    status = 0
    try:
        {'send': send, 'consume': consume, 'pull': pull}[sys.argv[1]]()
        put(type='done', ok=True)
    except Exception as e:  # reported, not raised: the C++ threads would outlive a traceback
        put(type='done', ok=False, error=f'{type(e).__name__}: {e}')
        status = 1
    sys.stdout.flush()
    os._exit(status)


main()
