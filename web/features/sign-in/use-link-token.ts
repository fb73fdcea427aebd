import { useLocation } from '@tanstack/react-router';
import { useEffect, useState } from 'react';

/**
 * The secret part of the link that led here. It is taken out of the address at once, so that it is
 * not in the history, a bookmark or a picture of the screen, and is gone with the page.
 */
export function useLinkToken(): string | null {
  const hash = useLocation({ select: (location) => location.hash });
  const [token, keep] = useState(hash === '' ? null : hash);
  // Somebody may paste a second link into the same page.
  if (hash !== '' && hash !== token) keep(hash);
  useEffect(() => {
    if (hash !== '') window.history.replaceState(window.history.state, '', window.location.pathname);
  }, [hash]);
  return token;
}
