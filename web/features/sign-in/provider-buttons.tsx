import type { Welcome } from '#server/contract/session.ts';
import { buttonClass } from '../../ui/button.tsx';

/** Why a provider's callback let no one in. Unknown codes have a general text. */
const ERRORS: Readonly<Record<string, string>> = {
  provider_unavailable: 'The identity provider can’t be reached. Try again later.',
  provider_denied: 'The identity provider didn’t sign you in. Try again, or ask its administrator.',
  provider_response_invalid: 'The identity provider’s response failed verification. Sign in again.',
  sign_in_expired: 'This sign-in took too long, or began in another browser. Sign in again.',
  no_matching_rule: 'None of your groups has access. Ask an administrator.',
  email_required: 'The identity provider sent no verified email for you. Ask its administrator.',
  email_in_use: 'Another member has your email. Ask an administrator.',
  too_many_attempts: 'Too many attempts. Wait before you try again.',
};

export function ProviderError({ code }: { code: string | undefined }) {
  if (code === undefined) return null;
  return (
    <p role="alert" className="mb-4 rounded-lg border border-danger bg-danger-soft px-3 py-2 text-danger">
      {ERRORS[code] ?? 'Signing in failed. Try again.'}
    </p>
  );
}

/** One button per identity provider. They are links: the server redirects to the provider. */
export function ProviderButtons({
  providers,
  next,
}: {
  providers: Welcome['providers'];
  next: string | undefined;
}) {
  const query = next === undefined ? '' : `?next=${encodeURIComponent(next)}`;
  return (
    <div className="flex flex-col gap-2">
      {providers.map(({ name, label, start_path: path }) => (
        <a key={name} href={`${path}${query}`} className={buttonClass('plain', 'min-h-9 w-full')}>
          <span className="truncate">Continue with {label}</span>
        </a>
      ))}
    </div>
  );
}
