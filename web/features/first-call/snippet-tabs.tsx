import { CopyButton } from '../../ui/copy.tsx';
import { type Tab, Tabs } from '../../ui/layout/tabs.tsx';
import { CodeBlock } from './code-block.tsx';
import {
  agentPrompt,
  type AgentSnippet,
  agentSnippets,
  curlSnippet,
  type Filling,
  pythonSnippet,
  type Snippet,
  typescriptSnippet,
} from './snippets.ts';

/** The same request for several clients. */
export function SnippetTabs({ filling }: { filling: Filling }) {
  return (
    <Tabs
      label="Clients"
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
  content: () => <CodeBlock text={text} use={use} label={`Example for ${name}`} />,
});
const agentsTab = (filling: Filling): Tab => ({
  id: 'agents',
  label: 'Coding agents',
  content: () => <Agents filling={filling} />,
});

function Agents({ filling }: { filling: Filling }) {
  return (
    <div className="flex flex-col gap-4">
      <Tabs label="Coding agents" tabs={agentSnippets(filling).map(tabOfAgent)} />
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <CopyButton text={agentPrompt(filling)} label="Copy prompt for your agent" />
        <p className="min-w-0 flex-1 basis-56 text-xs text-muted">
          Instructions for an agent to connect your project. The prompt does not contain your key.
        </p>
      </div>
    </div>
  );
}

const tabOfAgent = ({ id, name, parts, note }: AgentSnippet): Tab => ({
  id,
  label: name,
  content: () => (
    <div className="flex flex-col gap-3">
      {parts.map(({ use, text }) => (
        <CodeBlock key={use} text={text} use={use} label={`${name}: ${use}`} />
      ))}
      {note !== null && <p className="text-xs text-muted">{note}</p>}
    </div>
  ),
});
