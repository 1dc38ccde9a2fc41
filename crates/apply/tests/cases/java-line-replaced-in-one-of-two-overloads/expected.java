class Shapes {
    int area(int side) {
        int result = side * side;
        return result;
    }

    int area(int width, int height) {
        int result = Math.multiplyExact(width, height);
        return result;
    }
}
