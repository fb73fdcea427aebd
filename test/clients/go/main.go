// Runs one action of OpenAI's Go SDK, and prints its result as JSON: openai-go CLIENT ACTION BASE KEY MODEL NEXT
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

const (
	hello      = "When does the tide turn?"
	piecesSeen = 3
)

var (
	results = []string{"noon at Leith", "dusk at Oban"}
	names   = []string{"tool_0", "tool_1"}
	schema  = map[string]any{
		"type":                 "object",
		"properties":           map[string]any{"text": map[string]any{"type": "string"}},
		"required":             []string{"text"},
		"additionalProperties": false,
	}
	action, base, key, model, following string
)

type call struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

func main() {
	client := os.Args[1]
	action, base, key, model, following = os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]
	sdk := openai.NewClient(option.WithBaseURL(base), option.WithAPIKey(key), option.WithMaxRetries(0))
	run := chatCompletions
	if client == "responses" {
		run = ofResponses
	}
	value, err := run(context.Background(), sdk)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(value); err != nil {
		panic(err)
	}
}

func chatCompletions(ctx context.Context, sdk openai.Client) (any, error) {
	params := openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(hello)},
	}
	switch action {
	case "chat":
		reply, err := sdk.Chat.Completions.New(ctx, params)
		if err != nil {
			return nil, err
		}
		return map[string]any{
			"text": reply.Choices[0].Message.Content, "outputTokens": reply.Usage.CompletionTokens,
		}, nil
	case "tools":
		for _, name := range names {
			function := openai.FunctionDefinitionParam{Name: name, Parameters: schema}
			params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(function))
		}
		reply, err := sdk.Chat.Completions.New(ctx, params)
		if err != nil {
			return nil, err
		}
		message := reply.Choices[0].Message
		params.Messages = append(params.Messages, message.ToParam())
		calls := []call{}
		for index, made := range message.ToolCalls {
			calls = append(calls, call{made.Function.Name, json.RawMessage(made.Function.Arguments)})
			params.Messages = append(params.Messages, openai.ToolMessage(results[index], made.ID))
		}
		params.Model = following
		answer, err := sdk.Chat.Completions.New(ctx, params)
		if err != nil {
			return nil, err
		}
		return map[string]any{"calls": calls, "text": answer.Choices[0].Message.Content}, nil
	}
	stream := sdk.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close()
	pieces := []string{}
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			if choice.Delta.Content != "" {
				pieces = append(pieces, choice.Delta.Content)
			}
		}
		if action == "abort" && len(pieces) == piecesSeen {
			return pieces, nil
		}
	}
	return pieces, stream.Err()
}

func ofResponses(ctx context.Context, sdk openai.Client) (any, error) {
	input := responses.ResponseInputParam{
		responses.ResponseInputItemParamOfMessage(hello, responses.EasyInputMessageRoleUser),
	}
	params := responses.ResponseNewParams{
		Model: model,
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: input},
	}
	switch action {
	case "chat":
		reply, err := sdk.Responses.New(ctx, params)
		if err != nil {
			return nil, err
		}
		return map[string]any{"text": reply.OutputText(), "outputTokens": reply.Usage.OutputTokens}, nil
	case "tools":
		for _, name := range names {
			params.Tools = append(params.Tools, responses.ToolParamOfFunction(name, schema, true))
		}
		reply, err := sdk.Responses.New(ctx, params)
		if err != nil {
			return nil, err
		}
		calls := []call{}
		outputs := responses.ResponseInputParam{}
		for _, item := range reply.Output {
			if item.Type != "function_call" {
				continue
			}
			made := item.AsFunctionCall()
			input = append(input, responses.ResponseInputItemParamOfFunctionCall(made.Arguments, made.CallID, made.Name))
			output := responses.ResponseInputItemParamOfFunctionCallOutput(results[len(calls)])
			output.OfFunctionCallOutput.CallID = openai.String(made.CallID)
			outputs = append(outputs, output)
			calls = append(calls, call{made.Name, json.RawMessage(made.Arguments)})
		}
		params.Model = following
		params.Input.OfInputItemList = append(input, outputs...)
		answer, err := sdk.Responses.New(ctx, params)
		if err != nil {
			return nil, err
		}
		return map[string]any{"calls": calls, "text": answer.OutputText()}, nil
	}
	stream := sdk.Responses.NewStreaming(ctx, params)
	defer stream.Close()
	pieces := []string{}
	for stream.Next() {
		event := stream.Current()
		switch event.Type {
		case "response.output_text.delta":
			pieces = append(pieces, event.Delta)
		case "error":
			return nil, fmt.Errorf("%s: %s", event.Code, event.Message)
		case "response.failed":
			return nil, fmt.Errorf("%s: %s", event.Response.Error.Code, event.Response.Error.Message)
		}
		if action == "abort" && len(pieces) == piecesSeen {
			return pieces, nil
		}
	}
	return pieces, stream.Err()
}
