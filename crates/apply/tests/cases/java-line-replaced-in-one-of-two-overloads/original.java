class Shapes {
    int area(int side) {
        int result = side * side;
        return result;
    }

    int area(int width, int height) {
        int result = width * height;
        return result;
    }
}
