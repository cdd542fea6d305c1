/**
 * Returns a function that decodes names in a listing. We ask for URL-encoded names, because some names can't
 * be represented in XML. If the server doesn't support that, names aren't encoded. Throws `malformed()` if a
 * name can't be decoded.
 */
export function nameDecoder(
  encodingType: string | undefined,
  malformed: () => Error,
): (name: string | undefined) => string {
  if (encodingType !== 'url') return (name = '') => name;
  return (name = '') => {
    try {
      return decodeURIComponent(name.replaceAll('+', ' '));
    } catch {
      throw malformed();
    }
  };
}
