import { useQuery } from '@tanstack/react-query';
import { curlOf } from '../../lib/curl.ts';
import { modelsQuery } from '../../lib/models-query.ts';
import { useMe } from '../../lib/session.ts';
import { CopyButton } from '../../ui/copy.tsx';
import { Once } from '../../ui/once.tsx';
import type { Made } from './change-key.ts';

const TITLES = {
  created: (name: string) => `The secret of ${name}`,
  rotated: (name: string) => `The new secret of ${name}`,
  leaked: (name: string) => `The new secret of ${name}`,
};

/** A secret, once, with a call to try it. */
export function MadeDialog({
  made: { why, id, name, secret, models: narrowed },
  onClose,
}: {
  made: Made;
  onClose: () => void;
}) {
  const { base_url: baseUrl } = useMe();
  const models = useQuery(modelsQuery);
  // One that the key may call, as far as that is known without asking.
  const model = narrowed?.find((each) => !each.includes('*')) ?? models.data?.[0]?.id ?? 'MODEL';
  const curl = curlOf({ baseUrl, secret, model, prompt: 'Say hello.' });
  return (
    <Once
      title={TITLES[why](name)}
      secret={secret}
      what="secret"
      about="Only a digest of it is kept. Copy it now to where your program reads it."
      onClose={onClose}
    >
      {why === 'leaked' && <LeakedSteps id={id} />}
      <section aria-label="A call with it">
        <div className="mb-1.5 flex flex-wrap items-center justify-between gap-2">
          <h3 className="font-medium">Try it</h3>
          <CopyButton text={curl} label="Copy the call" />
        </div>
        <pre
          tabIndex={0}
          className="overflow-x-auto rounded-md border border-line bg-sunken p-2.5 font-mono text-xs leading-5"
        >
          {curl}
        </pre>
      </section>
    </Once>
  );
}

/** What no button can do. Links open beside this page, since leaving it loses the secret. */
function LeakedSteps({ id }: { id: string }) {
  return (
    <section aria-label="What else to do">
      <h3 className="mb-1 font-medium">The leaked secret has ended. What else to do</h3>
      <ol className="flex list-decimal flex-col gap-1 pl-5">
        <li>Give the new secret to your programs.</li>
        <li>
          Look at{' '}
          <a className="underline" href={`/requests?key=${id}&range=7d`} target="_blank" rel="noopener">
            the calls of the last days
          </a>
          : what you do not know was somebody else.
        </li>
        <li>
          Take it out of logs, chats and the history of repositories, where it was found. It opens nothing any
          more, but it tells what to look for.
        </li>
        <li>
          Narrow the key to the networks and models that it needs, so that a secret alone is of little use.
        </li>
      </ol>
    </section>
  );
}
