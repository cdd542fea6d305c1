import { pointerSegments } from './pointer.ts';

/** Where a value is in the text, and the name of its property; null if it has not been found. */
export interface Place {
  value: number | null;
  key: number | null;
  children: Map<string, Place>;
}

/** A tree of the places that are wanted, so that reading a document costs nothing for all the others. */
export function placesOf(pointers: Iterable<string>): Place {
  const root = newPlace();
  for (const pointer of pointers) {
    let place = root;
    for (const segment of pointerSegments(pointer)) {
      let child = place.children.get(segment);
      if (child === undefined) {
        child = newPlace();
        place.children.set(segment, child);
      }
      place = child;
    }
  }
  return root;
}

/** Offset of the value at a pointer, or of the nearest value around it that exists. */
export function valueOffset(root: Place, pointer: string): number {
  let place = root;
  for (const segment of pointerSegments(pointer)) {
    const child = place.children.get(segment);
    if (child?.value == null) break;
    place = child;
  }
  return place.value ?? 0;
}

/** Offset of the name of the property at a pointer; null if there is none. */
export function keyOffset(root: Place, pointer: string): number | null {
  let place: Place | undefined = root;
  for (const segment of pointerSegments(pointer)) place = place?.children.get(segment);
  return place?.key ?? null;
}

function newPlace(): Place {
  return { value: null, key: null, children: new Map() };
}
