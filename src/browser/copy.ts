/*
 * Copies text when a button with `data-copy` is clicked: the value of the attribute, or the text of the
 * element that `data-copy-of` names. Only secure pages may use the clipboard. On others, the buttons are
 * hidden.
 */
if (isSecureContext) document.documentElement.classList.add('can-copy');
document.addEventListener('click', ({ target }) => {
  const button =
    target instanceof Element ? target.closest<HTMLElement>('[data-copy], [data-copy-of]') : null;
  if (button === null) return;
  const source = document.getElementById(button.dataset['copyOf'] ?? '');
  void navigator.clipboard.writeText(button.dataset['copy'] ?? source?.textContent ?? '').then(() => {
    button.textContent = 'Copied';
  });
});

export {};
