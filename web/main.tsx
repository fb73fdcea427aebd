import { RouterProvider } from '@tanstack/react-router';
import { startTransition, StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { router } from './router.tsx';
import './style.css';

const place = document.querySelector('#root');
if (place) {
  const show = (): void =>
    // Drawn bit by bit, between which a slow phone can do something else.
    startTransition(() =>
      createRoot(place).render(
        <StrictMode>
          <RouterProvider router={router} />
        </StrictMode>,
      ),
    );
  // What the HTML shows stays until there is a page to put in its place.
  router.load().then(show, show);
}
