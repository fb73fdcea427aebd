import com.fasterxml.jackson.databind.ObjectMapper;
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.JsonValue;
import com.openai.models.FunctionDefinition;
import com.openai.models.FunctionParameters;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionToolMessageParam;
import com.openai.models.responses.EasyInputMessage;
import com.openai.models.responses.FunctionTool;
import com.openai.models.responses.ResponseCreateParams;
import com.openai.models.responses.ResponseInputItem;
import com.openai.models.responses.ResponseOutputItem;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Runs one action of OpenAI's Java SDK, and prints its result as JSON: CLIENT ACTION BASE KEY MODEL NEXT. */
public final class OpenaiJava {
  private static final String HELLO = "When does the tide turn?";
  private static final List<String> RESULTS = List.of("noon at Leith", "dusk at Oban");
  private static final List<String> NAMES = List.of("tool_0", "tool_1");
  private static final Map<String, JsonValue> SCHEMA =
      Map.of(
          "type", JsonValue.from("object"),
          "properties", JsonValue.from(Map.of("text", Map.of("type", "string"))),
          "required", JsonValue.from(List.of("text")),
          "additionalProperties", JsonValue.from(false));
  private static final int PIECES_SEEN = 3;
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] args) throws Exception {
    OpenAIClient client =
        OpenAIOkHttpClient.builder().baseUrl(args[2]).apiKey(args[3]).maxRetries(0).build();
    try {
      Object result =
          args[0].equals("responses")
              ? responses(client, args[1], args[4], args[5])
              : chat(client, args[1], args[4], args[5]);
      System.out.println(JSON.writeValueAsString(result));
    } catch (Exception error) {
      System.err.println(error);
      System.exit(1);
    }
    System.exit(0); // Threads of its HTTP client stay for a minute.
  }

  private static Object chat(OpenAIClient client, String action, String model, String next)
      throws Exception {
    var completions = client.chat().completions();
    var params = ChatCompletionCreateParams.builder().model(model).addUserMessage(HELLO);
    if (action.equals("chat")) {
      var reply = completions.create(params.build());
      return Map.of(
          "text", reply.choices().get(0).message().content().orElse(""),
          "outputTokens", reply.usage().orElseThrow().completionTokens());
    }
    if (action.equals("tools")) {
      var parameters = FunctionParameters.builder().putAllAdditionalProperties(SCHEMA).build();
      for (String name : NAMES)
        params.addFunctionTool(FunctionDefinition.builder().name(name).parameters(parameters).build());
      var message = completions.create(params.build()).choices().get(0).message();
      params.addMessage(message);
      List<Object> calls = new ArrayList<>();
      for (var call : message.toolCalls().orElse(List.of())) {
        var made = call.asFunction();
        params.addMessage(
            ChatCompletionToolMessageParam.builder()
                .toolCallId(made.id())
                .content(RESULTS.get(calls.size()))
                .build());
        calls.add(called(made.function().name(), made.function().arguments()));
      }
      var answer = completions.create(params.model(next).build());
      return Map.of("calls", calls, "text", answer.choices().get(0).message().content().orElse(""));
    }
    try (var stream = completions.createStreaming(params.build())) {
      return taken(
          action,
          stream.stream()
              .flatMap(chunk -> chunk.choices().stream())
              .flatMap(choice -> choice.delta().content().stream()));
    }
  }

  private static Object responses(OpenAIClient client, String action, String model, String next)
      throws Exception {
    var params = ResponseCreateParams.builder().model(model).input(HELLO);
    if (action.equals("chat")) {
      var reply = client.responses().create(params.build());
      return Map.of("text", textOf(reply.output()), "outputTokens", reply.usage().orElseThrow().outputTokens());
    }
    if (action.equals("tools")) {
      var parameters = FunctionTool.Parameters.builder().putAllAdditionalProperties(SCHEMA).build();
      for (String name : NAMES)
        params.addTool(FunctionTool.builder().name(name).parameters(parameters).strict(true).build());
      List<ResponseInputItem> input = new ArrayList<>();
      List<ResponseInputItem> outputs = new ArrayList<>();
      List<Object> calls = new ArrayList<>();
      input.add(
          ResponseInputItem.ofEasyInputMessage(
              EasyInputMessage.builder().role(EasyInputMessage.Role.USER).content(HELLO).build()));
      for (var item : client.responses().create(params.build()).output()) {
        if (!item.isFunctionCall()) continue;
        var made = item.asFunctionCall();
        input.add(ResponseInputItem.ofFunctionCall(made));
        outputs.add(
            ResponseInputItem.ofFunctionCallOutput(
                ResponseInputItem.FunctionCallOutput.builder()
                    .callId(made.callId())
                    .output(RESULTS.get(calls.size()))
                    .build()));
        calls.add(called(made.name(), made.arguments()));
      }
      input.addAll(outputs);
      var answer = client.responses().create(params.model(next).inputOfResponse(input).build());
      return Map.of("calls", calls, "text", textOf(answer.output()));
    }
    try (var stream = client.responses().createStreaming(params.build())) {
      return taken(
          action,
          stream.stream()
              .peek(
                  event -> {
                    if (event.isError()) throw new IllegalStateException(event.asError().toString());
                    if (event.isFailed()) throw new IllegalStateException(event.asFailed().toString());
                  })
              .flatMap(event -> event.outputTextDelta().stream())
              .map(event -> event.delta()));
    }
  }

  private static String textOf(List<ResponseOutputItem> output) {
    return output.stream()
        .flatMap(item -> item.message().stream())
        .flatMap(message -> message.content().stream())
        .flatMap(content -> content.outputText().stream())
        .map(text -> text.text())
        .collect(Collectors.joining());
  }

  private static Object called(String name, String json) throws Exception {
    return Map.of("name", name, "input", JSON.readTree(json));
  }

  /** All pieces; after an abort the first three. */
  private static List<String> taken(String action, Stream<String> pieces) {
    List<String> taken = new ArrayList<>();
    for (Iterator<String> each = pieces.iterator(); each.hasNext(); ) {
      String piece = each.next();
      if (piece.isEmpty()) continue;
      taken.add(piece);
      if (action.equals("abort") && taken.size() == PIECES_SEEN) break;
    }
    return taken;
  }
}
