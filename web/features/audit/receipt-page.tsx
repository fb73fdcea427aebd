import { useMutation } from '@tanstack/react-query';
import { type DragEvent, type FormEvent, useState } from 'react';
import type { ReceiptCheckResult } from '#server/contract/audit.ts';
import { api } from '../../lib/api/api.ts';
import { Button } from '../../ui/button.tsx';
import { CommandLine } from '../../ui/command-line.tsx';
import { TextArea } from '../../ui/form/field.tsx';
import { Icon } from '../../ui/icon.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { Sections } from './sections.tsx';

/** Verifies a receipt against this log. */
export function ReceiptPage() {
  const [text, setText] = useState('');
  const check = useMutation({
    mutationFn: (receipt: string) => api<ReceiptCheckResult>('POST', '/api/v1/audit/receipt', { receipt }),
  });
  const take = (receipt: string): void => {
    setText(receipt);
    if (receipt.trim() !== '') check.mutate(receipt);
  };
  const drop = (event: DragEvent): void => {
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    void file.text().then(take);
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    check.mutate(text);
  };
  return (
    <>
      <PageHead
        title="Verify receipt"
        about="A receipt, downloaded from a request, proves that it is recorded in the event log."
      />
      <Sections />
      <div className="flex flex-col gap-4">
        <Card>
          <form
            onSubmit={submit}
            onDragOver={(event) => event.preventDefault()}
            onDrop={drop}
            className="flex flex-col gap-3"
          >
            <TextArea
              label="Receipt"
              hint="Paste the receipt, or drop or select its file."
              rows={8}
              required
              spellCheck={false}
              className="font-mono text-xs"
              value={text}
              onChange={({ target }) => setText(target.value)}
            />
            <div className="flex flex-wrap items-center gap-3">
              <Button type="submit" look="primary" busy={check.isPending}>
                Verify receipt
              </Button>
              <input
                type="file"
                aria-label="Receipt file"
                accept=".json,application/json"
                className={[
                  'max-w-full text-xs text-muted file:mr-2 file:min-h-8 file:rounded-md file:border',
                  'file:border-solid file:border-line file:bg-surface file:px-3 file:text-sm',
                  'file:font-medium file:text-ink hover:file:bg-sunken',
                ].join(' ')}
                onChange={({ target }) => void target.files?.[0]?.text().then(take)}
              />
            </div>
            <FormProblem error={check.error} />
          </form>
        </Card>
        <div role="status">{check.data && <Checked checked={check.data} />}</div>
        <p className="text-xs text-muted">
          This check runs on the server that keeps the log. To verify independently, run this on your own
          machine with the verifier key:
        </p>
        <CommandLine command="npm run -s audit -- receipt FILE --key VERIFIER_KEY" />
      </div>
    </>
  );
}

function Checked({ checked: { valid, statements, problem } }: { checked: ReceiptCheckResult }) {
  return (
    <Card
      title={
        <span className={`flex items-center gap-2 ${valid ? 'text-success' : 'text-danger'}`}>
          <Icon name={valid ? 'check' : 'warning'} />
          {valid ? 'Valid receipt' : 'Invalid receipt'}
        </span>
      }
    >
      {problem !== null && <p className="wrap-anywhere">{problem}</p>}
      <ul className="flex list-disc flex-col gap-1 pl-5">
        {statements.map((line, index) => (
          <li key={index} className="wrap-anywhere">
            {line}
          </li>
        ))}
      </ul>
    </Card>
  );
}
