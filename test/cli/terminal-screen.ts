const escape = '\u001b';

/** The lines that a terminal shows at the end. Overwritten lines are not included. */
export function screenOf(output: string): string[] {
  const plain = output
    .split('\n')
    .map(
      (line) =>
        line
          .replaceAll('\r', '')
          .split(new RegExp(`${escape}\\[0?[GK]|${escape}\\[2K|${escape}\\[1G`))
          .at(-1) ?? '',
    )
    .map((line) => line.replaceAll(new RegExp(`${escape}\\[[?\\d;]*[A-Za-z]`, 'g'), ''));
  return plain.filter((line) => line.trim() !== '');
}
