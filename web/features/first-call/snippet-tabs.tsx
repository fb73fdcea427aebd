import { CopyButton } from '../../ui/copy.tsx';
import { type Tab, Tabs } from '../../ui/tabs.tsx';
import { CodeBlock } from './code-block.tsx';
import {
  agentPrompt,
  agentSnippets,
  curlSnippet,
  type Filling,
  pythonSnippet,
  type Snippet,
  typescriptSnippet,
} from './snippets.ts';

/** The same call for whatever people use. */
export function SnippetTabs({ filling }: { filling: Filling }) {
  return (
    <Tabs
      label="Ways to call"
      tabs={[
        ...[curlSnippet, pythonSnippet, typescriptSnippet].map((make) => tabOf(make(filling))),
        agentsTab(filling),
      ]}
    />
  );
}

const tabOf = ({ id, name, use, text }: Snippet): Tab => ({
  id,
  label: name,
  content: () => <CodeBlock text={text} use={use} label={`For ${name}`} />,
});
const agentsTab = (filling: Filling): Tab => ({
  id: 'agents',
  label: 'Coding agents',
  content: () => <Agents filling={filling} />,
});

function Agents({ filling }: { filling: Filling }) {
  return (
    <div className="flex flex-col gap-4">
      <p className="text-muted">
        For agents that speak chat completions. Codex speaks the Responses API alone and Claude Code the
        Messages API, so neither can use this address.
      </p>
      <Tabs label="Coding agents" tabs={agentSnippets(filling).map(tabOf)} />
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <CopyButton text={agentPrompt(filling)} label="Copy a prompt for your agent" />
        <p className="min-w-0 flex-1 basis-56 text-xs text-muted">
          It tells an agent how to connect your project. It does not hold the key: what an agent reads goes to
          a model.
        </p>
      </div>
    </div>
  );
}
