import { useQuery } from '@tanstack/react-query';
import { curlOf } from '../../lib/format/curl.ts';
import { modelsQuery } from '../../lib/api/queries.ts';
import { useMe } from '../../lib/api/session.ts';
import { CopyButton } from '../../ui/copy.tsx';
import { SecretDialog } from '../../ui/dialog/secret-dialog.tsx';
import type { NewSecret } from './key-mutations.ts';

const TITLES = {
  created: (name: string) => `Key ${name} created`,
  rotated: (name: string) => `Key ${name} rotated`,
  leaked: (name: string) => `Secret of key ${name} replaced`,
};

/** Shows a secret once, with an example request. */
export function KeySecretDialog({
  made: { why, id, name, secret, models: restrictedTo },
  onClose,
}: {
  made: NewSecret;
  onClose: () => void;
}) {
  const { base_url: baseUrl } = useMe();
  const models = useQuery(modelsQuery);
  // A model that the key may use, as far as this page knows.
  const model = restrictedTo?.find((each) => !each.includes('*')) ?? models.data?.[0]?.id ?? 'MODEL';
  const curl = curlOf({ baseUrl, secret, model, prompt: 'Say hello.' });
  return (
    <SecretDialog
      title={TITLES[why](name)}
      secret={secret}
      what="secret"
      about="Only its digest is stored."
      onClose={onClose}
    >
      {why === 'leaked' && <LeakedSteps id={id} />}
      <section aria-label="Example request">
        <div className="mb-1.5 flex flex-wrap items-center justify-between gap-2">
          <h3 className="font-medium">Try it</h3>
          <CopyButton text={curl} label="Copy command" />
        </div>
        <pre
          tabIndex={0}
          className={[
            'overflow-x-auto rounded-md border border-line bg-sunken p-2.5 font-mono text-xs',
            'leading-5',
          ].join(' ')}
        >
          {curl}
        </pre>
      </section>
    </SecretDialog>
  );
}

/** Manual steps after a leak. Links open a new tab, because leaving this page discards the secret. */
function LeakedSteps({ id }: { id: string }) {
  return (
    <section aria-label="Next steps">
      <h3 className="mb-1 font-medium">The leaked secret no longer works. Next steps</h3>
      <ol className="flex list-decimal flex-col gap-1 pl-5">
        <li>Update your clients with the new secret.</li>
        <li>
          Review{' '}
          <a className="underline" href={`/requests?key=${id}&range=7d`} target="_blank" rel="noopener">
            the requests of the last 7 days
          </a>{' '}
          for unknown use.
        </li>
        <li>Remove the old secret from logs, chats and repositories.</li>
        <li>Restrict the key to the networks and models that it needs.</li>
      </ol>
    </section>
  );
}
