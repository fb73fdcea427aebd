import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Prints the records of a topic, in the order of their offsets, as a line of JSON each: what a consumer with
 * Kafka's own client gets, read committed. Arguments: the broker's address and the topic.
 */
final class KafkaTopic {
  public static void main(String[] args) throws Exception {
    var json = new ObjectMapper();
    Map<String, Object> settings =
        Map.of("bootstrap.servers", args[0], "auto.offset.reset", "earliest", "isolation.level", "read_committed");
    var strings = new StringDeserializer();
    try (var consumer = new KafkaConsumer<>(settings, strings, strings)) {
      List<TopicPartition> partitions =
          consumer.partitionsFor(args[1]).stream()
              .map(each -> new TopicPartition(each.topic(), each.partition()))
              .toList();
      consumer.assign(partitions);
      Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
      while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each)))
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100)))
          System.out.println(json.writeValueAsString(fieldsOf(record)));
    }
  }

  private static Map<String, Object> fieldsOf(ConsumerRecord<String, String> record) {
    Map<String, String> headers = new LinkedHashMap<>();
    for (var header : record.headers())
      headers.put(header.key(), new String(header.value(), StandardCharsets.UTF_8));
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("partition", record.partition());
    fields.put("offset", record.offset());
    fields.put("timestamp", record.timestamp());
    fields.put("key", record.key());
    fields.put("headers", headers);
    fields.put("value", record.value());
    return fields;
  }
}
