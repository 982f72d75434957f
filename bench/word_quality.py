"""How good word vectors are: Spearman's rank correlation with what people find alike, and analogies. Whoever made the
vectors, they are read from word2vec's text format and asked the same questions.

    python3 bench/word_quality.py vectors.txt --set text.h5 --analogies questions-words.txt --similarity FILE...

--set names the text in unisono's layout, whose dictionary has the words from the most frequent one on: analogies are
asked of the first --words of them, so that all programs choose among the same words. Prints one JSON object.
"""

import argparse
import json

import h5py
import numpy as np

QUESTIONS_AT_ONCE = 500


def read_vectors(path):
    """Each word's vector, of length 1."""
    vectors = {}
    with open(path, encoding="utf-8") as file:
        width = int(next(file).split()[1])
        for line in file:
            word, numbers = line.rstrip().split(" ", 1)
            vector = np.fromstring(numbers, np.float32, sep=" ")
            assert len(vector) == width, f"{path}: '{word}' has {len(vector)} numbers, not {width}"
            vectors[word] = vector / max(np.linalg.norm(vector), 1e-30)
    return vectors


def ranks(values):
    """Places in ascending order, from 1; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def similarity(vectors, path):
    """Spearman's ρ between the file's scores and the cosines of the pairs that are there."""
    scores, cosines = [], []
    with open(path, encoding="utf-8") as file:
        for line in file:
            one, other, score = line.lower().split()
            if one in vectors and other in vectors:
                scores.append(float(score))
                cosines.append(vectors[one] @ vectors[other])
    return float(np.corrcoef(ranks(scores), ranks(cosines))[0, 1])


def read_questions(path, numbers):
    """[n, 4]: the numbers of the words of all questions whose words have one."""
    with open(path, encoding="utf-8") as file:
        lines = [line.lower().split() for line in file if not line.startswith(":")]
    return np.array([[numbers[word] for word in line] for line in lines if all(word in numbers for word in line)])


def analogies(vectors, words, path):
    """The share of the questions "a is to b as c is to d" whose d is the word nearest to b − a + c (3CosAdd)."""
    words = [word for word in words if word in vectors]
    matrix = np.array([vectors[word] for word in words])
    questions = read_questions(path, {word: number for number, word in enumerate(words)})
    right = 0
    for start in range(0, len(questions), QUESTIONS_AT_ONCE):
        a, b, c, d = questions[start : start + QUESTIONS_AT_ONCE].T
        near = (matrix[b] - matrix[a] + matrix[c]) @ matrix.T
        for asked in (a, b, c):
            near[np.arange(len(a)), asked] = -np.inf
        right += np.count_nonzero(near.argmax(axis=1) == d)
    return right / len(questions)


def read_names(names):
    """A list of strings, as unisono writes it, or of h5py's."""
    if isinstance(names, h5py.Dataset):
        return [name.decode() for name in names[:]]
    text, ends = names["bytes"][:].tobytes(), names["offsets"][:]
    return [text[begin:end].decode() for begin, end in zip(ends, ends[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors")
    parser.add_argument("--set", required=True)
    parser.add_argument("--words", type=int, default=30000)
    parser.add_argument("--analogies")
    parser.add_argument("--similarity", nargs="*", default=[])
    arguments = parser.parse_args()
    vectors = read_vectors(arguments.vectors)
    with h5py.File(arguments.set) as file:
        words = read_names(file["dictionary/words"])[: arguments.words]
    result = {"similarity": [similarity(vectors, path) for path in arguments.similarity]}
    if arguments.analogies:
        result["analogies"] = analogies(vectors, words, arguments.analogies)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
