# SPDX-License-Identifier: Apache-2.0
"""What one broker alone cannot show: a leader that lost records takes over."""
import subprocess

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from harness import DATA_LOSS, ROOT, Kafka, read_table, until

PLACES = ':select("partition", "offset", "value")'


class Three(Kafka):
    """Three nodes, each broker and controller. Two of them must live for anything to be decided."""

    def start(self):
        done = subprocess.run([ROOT / "scripts/kafka", "start", self.directory, "--nodes", "3", "--heap", "256m"],
                              stdout=subprocess.PIPE, text=True, check=True, timeout=120)
        self.bootstrap = done.stdout.split()[-1]
        return self

    def node(self, n, action):
        subprocess.run([ROOT / "scripts/kafka", "node", self.directory, str(n), action], check=True, timeout=20)

    def topic_on(self, name, nodes):
        """A topic of one partition; any of its nodes may lead it, also one that lacks records."""
        new = NewTopic(name, num_partitions=1, replica_assignment=[nodes],
                       config={"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
        self.admin.create_topics([new])[name].result(20)
        until(lambda: self.leader(name) == nodes[0], what=f"{nodes[0]} to lead {name}")

    def partition(self, topic):
        """None: nobody can say now, as while nodes come and go."""
        try:
            return self.admin.list_topics(topic, timeout=10).topics[topic].partitions.get(0)
        except KafkaException:
            return None

    def leader(self, topic):
        partition = self.partition(topic)
        return partition and partition.leader

    def in_sync(self, topic):
        partition = self.partition(topic)
        return partition and sorted(partition.isrs)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    brokers = Three(tmp_path_factory.mktemp("three-kafka")).start()
    yield brokers
    brokers.stop(kill=True)


def test_a_leader_without_the_last_records_is_noticed_though_its_log_has_grown_again(three, work):
    topic = "unclean"
    three.topic_on(topic, [1, 2])
    three.produce_values(topic, 0, [f"both {n}" for n in range(50)])
    run = work.start(work.job(topic, PLACES, kafka=three, trigger=None))
    run.wait_batches(1, 60)
    three.node(2, "kill")
    until(lambda: three.in_sync(topic) == [1], 60, "node 1 alone in sync")
    three.produce_values(topic, 0, [f"one {n}" for n in range(50)])
    run.wait_for(lambda r: sum(p["numInputRows"] for p in r.progress()) == 100, 60, "all 100 rows")
    three.node(1, "kill")
    three.node(2, "start")
    until(lambda: three.leader(topic) == 2, 60, "node 2 to lead", every=0.2)
    three.clients.clear()  # an idempotent producer would miss its own records
    three.produce_values(topic, 0, [f"two {n}" for n in range(80)])
    done = run.finish(60)
    assert done.code == DATA_LOSS and topic in done.err and "cut" in done.err, repr(done)
    values = sorted(v.decode() for v in read_table(work.out)["value"].to_pylist())
    assert values == sorted(f"{who} {n}" for who in ("both", "one") for n in range(50))
