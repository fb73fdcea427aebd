import { useLocation } from '@tanstack/react-router';
import { useEffect, useState } from 'react';

/**
 * The token of the opened link. It is removed from the URL immediately, so that it does not appear in the
 * history, bookmarks or screenshots.
 */
export function useLinkToken(): string | null {
  const hash = useLocation({ select: (location) => location.hash });
  const [token, keep] = useState(hash === '' ? null : hash);
  // A second link may be pasted into the same page.
  if (hash !== '' && hash !== token) keep(hash);
  useEffect(() => {
    if (hash !== '') window.history.replaceState(window.history.state, '', window.location.pathname);
  }, [hash]);
  return token;
}
